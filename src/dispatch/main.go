// Command dispatch is the charm. Juju starts it for every hook and action. People start it
// on a unit for `dispatch plan` and `dispatch gpu list`.
package main

import (
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
)

func main() {
	os.Exit(cli.Main(wellknown.Dispatch, os.Args, os.Getenv, os.Stdout, os.Stderr))
}
