// Command gpu-dra-driver offers a machine's AMD GPUs to claims of a Kubernetes cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/src/gpu-dra-driver/driver"
)

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	os.Exit(driver.Run(ctx, version.Version(), os.Args[1:], os.Stdout, os.Stderr))
}
