package worker

import (
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
)

// desireExporter returns Pebble with the GPU exporter, on units with GPUs for tasks.
func desireExporter(o Observed, g GPUs) (p part) {
	layer := resource.PebbleLayer{
		Service: role.ExporterService, Summary: "GPU metrics on port 9401", User: "nobody",
		Group: "nogroup",
		Check: role.ExporterService, URL: role.ExporterURL,
		Command: []string{
			role.ExporterBin, "--web.listen-address=:9401", "--path.root=/", "--unit=" + o.Facts.Unit,
			"--disk.folder=" + concourse.WorkFolder(o.Shared()), "--vendor=" + string(g.Vendor),
		}}
	vendors[g.assumed()].watch(&layer, o, g)
	if o.Config.Exporter.DCGMAliases {
		layer.Command = append(layer.Command, "--dcgm-aliases")
	}
	if leaseConfig(o, g) != nil {
		layer.Command = append(layer.Command, "--leases.report="+LeaseReport)
	}
	p.add(resource.Absent{Path: role.JobsCredentials, Why: "this unit is a worker"})
	var err error
	pebble := rolePart(rankWorker, func(d *role.Desired) {
		err = role.DesirePebble(
			d, o.Observed, "this unit has no GPU to watch", len(g.All) > 0, role.JobsService, layer)
	})
	return join(p, pebble, part{err: err})
}
