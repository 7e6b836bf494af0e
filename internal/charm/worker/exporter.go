package worker

import (
	"cmp"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

// exports reports whether the unit runs the exporter, for its GPUs or for the verdicts on tasks.
// A recorder runs on if the worker loses its web.
func exports(o Observed, g GPUs) bool {
	return len(g.All) > 0 || o.Config.Worker.TaskRecordSize > 0 && (registers(o) || o.Units[RecorderUnit].Running())
}

// gpuExporter returns the exporter. Without GPUs it serves the verdicts on tasks and the disk,
// and no program of root runs for it.
func gpuExporter(o Observed, g GPUs) role.PebbleService {
	layer := resource.PebbleLayer{
		Service: role.ExporterService, Summary: "metrics of GPUs and tasks on port 9401", User: "nobody",
		Group: "nogroup",
		Check: role.ExporterService, URL: role.ExporterURL,
		Command: []string{
			role.ExporterBin, "serve", "--web.listen-address=:9401", "--path.root=/", "--unit=" + o.Facts.Unit,
			"--explain=" + o.Facts.Commands().RunAction("explain-error code="),
			"--disk.folder=" + concourse.WorkFolder(o.Shared()), "--vendor=" + cmp.Or(string(g.Vendor), "none"),
		}}
	if len(g.All) > 0 {
		vendors[g.assumed()].watch(&layer, o, g)
	} else {
		layer.Command = append(layer.Command, "--collect.usage=false")
	}
	if o.Config.GPU.Metrics.DCGMAliases {
		layer.Command = append(layer.Command, "--dcgm-aliases")
	}
	for _, link := range []struct{ flag, url string }{{"--link.fleet", role.FleetPage(o.Facts, o.Config.Web)},
		{"--link.dashboard", o.Config.GPU.DashboardURL}, {"--web.external-url", role.StatusPage(o.Facts)}} {
		if link.url != "" {
			layer.Command = append(layer.Command, link.flag+"="+link.url)
		}
	}
	if leases(o, g) {
		layer.Command = append(layer.Command, "--leases.report="+pool.ReportFile)
	}
	if o.Config.Worker.TaskRecordSize > 0 {
		layer.Command = append(layer.Command, "--tasks.report="+verdict.ReportPath)
	}
	missing := ""
	if !exports(o, g) {
		missing = "this unit has no GPU to watch, and records no tasks"
	}
	return role.PebbleService{Layer: layer, Missing: missing, Programs: o.Programs}
}
