// Command rocm-exporter serves the state of AMD GPUs to Prometheus.
package main

import (
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
)

func main() { os.Exit(exporter.Run(version.Version(), os.Args[1:], os.Stdout, os.Stderr)) }
