// One thread of this program works, for a millisecond: Go's runtime need not
// look at the number of processors again, nor name its memory. That saves 0.03 of
// 2.3 ms at a create.
//
//go:debug updatemaxprocs=0
//go:debug decoratemappings=0

// The command runc-amd-wrapper runs before runc; see internal/oci.
package main

import (
	"os"

	"concourse-ci-machine/internal/oci"
)

func main() {
	os.Exit(oci.Main(os.Args, os.Environ(), os.Stdout, os.Stderr))
}
