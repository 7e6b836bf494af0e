package web

import (
	"net"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
)

// desireJobExporter runs the exporter of Concourse's jobs under Pebble, on a web with
// enable-metrics. The exporter uses the web's own address, port and user (D57). It runs as
// the owner of the file with the password (D39).
func desireJobExporter(d *Desired, o Observed) error {
	why := ""
	switch {
	case !o.Config.Web.EnableMetrics:
		why = "enable-metrics is off"
	case !d.Up:
		why = "no web runs here"
	}
	if d.Jobs = why == ""; d.Jobs {
		c := login.Credentials{URL: d.LocalURL, Username: o.Config.Web.InitialAdminUsername,
			Password: d.Secret[model.AdminPassword]}
		data, err := c.Marshal()
		if err != nil {
			return err
		}
		d.Resources = append(d.Resources, resource.Dir{Path: "/etc/concourse-ci-machine", Mode: 0o755},
			resource.File{Path: role.JobsCredentials, Data: data, Mode: 0o600, Owner: concourse.WebUser},
			resource.Dir{Path: role.JobsFolder, Mode: 0o700, Owner: concourse.WebUser})
	} else {
		d.Resources = append(d.Resources, resource.Absent{Path: role.JobsCredentials, Why: why},
			resource.Absent{Path: role.JobsFolder, Why: why, Tree: true})
	}
	if err := desireFleetFile(d, o, why); err != nil {
		return err
	}
	command := []string{role.JobsBin, "--credentials-file=" + role.JobsCredentials,
		"--state.folder=" + role.JobsFolder}
	if len(o.Config.Web.RequiredArchs) > 0 {
		command = append(command, "--required-archs="+strings.Join(o.Config.Web.RequiredArchs, ","))
	}
	if o.Config.Web.FleetPage != config.FleetOff {
		command = append(command, "--fleet.file="+role.FleetFile)
	}
	d.Pebble = append(d.Pebble, role.PebbleService{Missing: why, Programs: o.Programs, Layer: resource.PebbleLayer{
		Service: role.JobsService, Summary: "metrics of Concourse's jobs on port " + strconv.Itoa(wellknown.JobsPort),
		Command: command, User: concourse.WebUser, Group: concourse.WebUser,
		Check: role.JobsService, URL: role.JobsURL}})
	return nil
}

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
