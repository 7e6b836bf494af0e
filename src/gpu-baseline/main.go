// Command gpu-baseline compares two profiles and fails where one got worse.
package main

import (
	"os"

	"concourse-ci-machine/internal/baseline"
	"concourse-ci-machine/internal/version"
)

func main() {
	s := baseline.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(baseline.Run("gpu-baseline", version.Version, os.Args[1:], s))
}
