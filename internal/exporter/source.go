package exporter

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/page"
)

// Source holds the input of the API, the page and the metrics.
type Source struct {
	Root    host.Root
	Unit    string // Juju's name, or ""
	Version string // of the exporter
	Links   page.Links
	Monitor *monitor.Monitor
}

// Report reads all GPUs.
func (s *Source) Report() api.Report {
	r := s.Monitor.Report()
	r.Unit, r.Version = s.Unit, s.Version
	return r
}
