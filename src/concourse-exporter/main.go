// Command concourse-exporter serves the state of Concourse's jobs to Prometheus.
package main

import (
	"os"

	"concourse-ci-machine/internal/jobexporter"
)

var version = "(devel)" // set when it is linked

func main() { os.Exit(jobexporter.Run(version, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }
