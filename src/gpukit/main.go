// Command gpukit gives the AMD GPUs of a machine without Juju to containers. It has the
// commands of dispatch that need no unit of the charm.
package main

import (
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
)

func main() {
	os.Exit(cli.Main(wellknown.GPUKit, os.Args, os.Getenv, os.Stdout, os.Stderr))
}
