// Command gpu-baseline compares two profiles and fails where one got worse.
package main

import (
	"os"

	"concourse-ci-machine/internal/baseline"
)

var version = "(devel)" // set when it is linked

func main() {
	s := baseline.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(baseline.Run("gpu-baseline", version, os.Args[1:], s))
}
