// Command charmpack makes the charm from the tree; `make charm` runs it.
package main

import (
	"os"

	"github.com/fourdollars/concourse-ci-machine/tools/charmpack"
)

func main() { os.Exit(charmpack.Run(os.Args[1:], os.Stdout, os.Stderr)) }
