// Command rocm-exporter serves the state of AMD GPUs to Prometheus.
package main

import (
	"os"

	"concourse-ci-machine/internal/exporter"
)

var version = "(devel)" // set when it is linked

func main() { os.Exit(exporter.Run(version, os.Args[1:], os.Stdout, os.Stderr)) }
