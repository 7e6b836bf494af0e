// Command concourse-exporter serves the state of Concourse's jobs to Prometheus.
package main

import (
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet"
)

func main() {
	os.Exit(jobexporter.Run(version.Version(), os.Args[1:], os.Getenv, fleet.New(), os.Stdout, os.Stderr))
}
