package worker

import (
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/pool"
	"concourse-ci-machine/internal/pool/verdict"
)

// gpuExporter returns the GPU exporter, which units with GPUs for tasks run.
func gpuExporter(o Observed, g GPUs) role.PebbleService {
	layer := resource.PebbleLayer{
		Service: role.ExporterService, Summary: "GPU metrics on port 9401", User: "nobody",
		Group: "nogroup",
		Check: role.ExporterService, URL: role.ExporterURL,
		Command: []string{
			role.ExporterBin, "--web.listen-address=:9401", "--path.root=/", "--unit=" + o.Facts.Unit,
			"--disk.folder=" + concourse.WorkFolder(o.Shared()), "--vendor=" + string(g.Vendor),
		}}
	vendors[g.assumed()].watch(&layer, o, g)
	if o.Config.GPU.Metrics.DCGMAliases {
		layer.Command = append(layer.Command, "--dcgm-aliases")
	}
	for _, link := range []struct{ flag, url string }{{"--link.fleet", role.FleetPage(o.Facts, o.Config.Web)},
		{"--link.dashboard", o.Config.GPU.DashboardURL}, {"--web.external-url", role.StatusPage(o.Facts)}} {
		if link.url != "" {
			layer.Command = append(layer.Command, link.flag+"="+link.url)
		}
	}
	if leaseConfig(o, g) != nil {
		layer.Command = append(layer.Command, "--leases.report="+pool.ReportFile)
	}
	if o.Config.Worker.TaskRecordSize > 0 {
		layer.Command = append(layer.Command, "--tasks.report="+verdict.ReportPath)
	}
	missing := ""
	if len(g.All) == 0 {
		missing = "this unit has no GPU to watch"
	}
	return role.PebbleService{Layer: layer, Missing: missing, Programs: o.Programs}
}
