package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	plots := flag.String("plots", "", "`folder` to write the plots to; none are made without it")
	name := flag.String("page", "bench", "which `page` to write: bench, agent or idle")
	guard := flag.Bool("guard", false, "check the guards instead of writing a page")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "report: %q is not needed: the output of the benchmarks is read from standard input\n", flag.Args())
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout, *name, *plots, *guard); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, name, plots string, guard bool) error {
	of, err := bookOf(name)
	if err != nil {
		return err
	}
	res, err := parse(in)
	if err != nil {
		return err
	}
	if guard {
		return check(res, guards, out)
	}
	if plots != "" {
		if err := draw(res, plots); err != nil {
			return err
		}
	}
	_, err = io.WriteString(out, page(res, of, plots != ""))
	return err
}
