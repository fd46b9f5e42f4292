// Command nodewatch watches the pods of a node.
//
// Everything it does is in internal/cli; docs/cli.md lists the flags.
package main

import (
	"os"

	"github.com/nodewatch-go/nodewatch/cmd/nodewatch/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdout, os.Stderr))
}
