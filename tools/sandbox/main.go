// Command sandbox shows the charm at work on a throwaway machine or in a throwaway folder;
// `make demo` runs it.
package main

import (
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox/demo"
)

func main() {
	guest.Intercept()
	code, done := sandbox.Intercept()
	if !done {
		code, done = demo.InContainer()
	}
	if !done {
		code, done = demo.InNamespaces()
	}
	if done {
		os.Exit(code)
	}
	os.Exit(demo.Main(os.Args[1:], os.Stdout, os.Stderr))
}
