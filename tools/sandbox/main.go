// Command sandbox shows the charm at work in a throwaway folder; `make demo` runs it.
package main

import (
	"os"

	"concourse-ci-machine/internal/testutil/sandbox"
	"concourse-ci-machine/internal/testutil/sandbox/demo"
)

func main() {
	code, done := sandbox.Intercept()
	if !done {
		code, done = demo.InContainer()
	}
	if done {
		os.Exit(code)
	}
	os.Exit(demo.Main(os.Args[1:], os.Stdout, os.Stderr))
}
