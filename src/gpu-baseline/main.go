// Command gpu-baseline compares profiles of examples, finds the commit that made one worse,
// and measures two commits in turns.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/src/gpu-baseline/baseline"
)

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	s := baseline.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(baseline.Run(ctx, host.New(""), "gpu-baseline", version.Version(), os.Args[1:], s))
}
