// The command runc-amd-wrapper stands in front of runc; see internal/oci.
package main

import (
	"os"

	"concourse-ci-machine/internal/oci"
)

func main() {
	os.Exit(oci.Main(os.Args, os.Environ(), os.Stdout, os.Stderr))
}
