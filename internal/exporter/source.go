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

// Report reads all GPUs and adds their histories.
func (s *Source) Report() api.Report {
	name, err := s.Root.ReadText("/proc/sys/kernel/hostname")
	if err != nil {
		name, _ = s.Root.ReadText("/etc/hostname") // the root of no running machine; "" without this file, too
	}
	snapshot := s.Monitor.Snapshot()
	r := api.Report{Unit: s.Unit, Host: name, Version: s.Version, Time: snapshot.At.UTC(), GPUs: monitor.StatusOf(snapshot)}
	if u := snapshot.Users; u != nil {
		r.UsersTime = new(u.At.UTC())
	}
	for i := range r.GPUs {
		r.GPUs[i].History = s.Monitor.History(snapshot.GPUs[i].Device)
	}
	return r
}
