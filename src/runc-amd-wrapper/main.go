// This program uses one thread for a millisecond. Go's runtime need not read the number of
// processors again or name its memory, which saves 0.03 of 2.3 ms at a create.
//
//go:debug updatemaxprocs=0
//go:debug decoratemappings=0

// Command runc-amd-wrapper adds GPUs to containers and becomes runc, see internal/oci.
package main

import (
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

func main() {
	os.Exit(oci.Main(os.Args, os.Environ(), os.Stdout, os.Stderr))
}
