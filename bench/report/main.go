// Command report reads the output of the benchmarks of package bench, of one or
// more runs, and writes a page with medians and ratios to client-go. It
// invents nothing: what is not in the output is not on the page.
//
//	go run ./bench/report < bench.txt > bench/RESULTS.md
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

func main() {
	if err := run(os.Stdin, os.Stdout, runtime.Version()); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, goVersion string) error {
	res, err := parse(in)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, page(res, goVersion))
	return err
}
