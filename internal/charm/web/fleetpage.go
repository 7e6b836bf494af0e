package web

import (
	"net"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
)

// desireFleetFile writes the list of workers for the page of concourse-exporter, which reads
// it before each poll. missing is why the unit does not run that program, or "".
func desireFleetFile(d *Desired, o Observed, missing string) error {
	if missing == "" && o.Config.Web.FleetPage == config.FleetOff {
		missing = "fleet-page is off"
	}
	if missing != "" {
		d.Resources = append(d.Resources, resource.Absent{Path: role.FleetFile, Why: missing})
		return nil
	}
	data, err := fleetFile(o).Marshal()
	if err != nil {
		return err
	}
	d.Resources = append(d.Resources, resource.File{Path: role.FleetFile, Data: data, Mode: 0o644})
	return nil
}

// fleetFile returns the workers of the web, with the address at which each worker's exporter
// answers webs.
func fleetFile(o Observed) fleetfile.File {
	f := fleetfile.File{Concourse: webURL(o), RequiredArchs: o.Config.Web.RequiredArchs,
		HideNames: o.Config.Web.FleetPage == config.FleetAnonymous, Workers: []fleetfile.Worker{},
		Dashboard: o.Config.GPU.DashboardURL, CO2GramsPerKWh: o.Config.CO2GramsPerKWh,
		Page: role.FleetPage(o.Facts, o.Config.Web)}
	for _, host := range append([]string{"127.0.0.1"}, o.Facts.Web.Peers...) {
		f.Metrics = append(f.Metrics, role.HTTPAddress(host, wellknown.WebMetricsPort)+"/metrics")
	}
	for _, w := range o.Facts.Web.SortedWorkers() {
		f.Workers = append(f.Workers, fleetWorkerOf(w))
	}
	return f
}

func fleetWorkerOf(w model.Worker) fleetfile.Worker {
	out := fleetfile.Worker{Unit: w.Unit, Name: w.Name, Count: w.GPUs.Count}
	// A worker chooses its address, and the page links to it.
	if u := role.HTTPAddress(w.Address, wellknown.GPUsPort); net.ParseIP(w.Address) != nil {
		out.URL = u
	}
	if w.GPUs.Count == 0 {
		return out
	}
	for _, g := range w.GPUs.Each {
		g.Leased = nil
		out.GPUs = append(out.GPUs, g)
	}
	if since := w.GPUs.Since; !since.IsZero() {
		out.Published = &since
	}
	return out
}
