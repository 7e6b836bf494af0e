// Command gpu-device-plugin offers a machine's AMD GPUs to the kubelet.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/deviceplugin"
)

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	os.Exit(deviceplugin.Run(ctx, version.Version(), os.Args[1:], os.Stdout, os.Stderr))
}
