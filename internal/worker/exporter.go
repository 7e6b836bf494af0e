package worker

import (
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpuservice"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/role"
)

// desireExporter is Pebble with the GPU exporter, on units that have AMD GPUs
// and were asked to use them.
func desireExporter(d *Desired, o Observed, g GPUs) error {
	command := []string{role.ExporterBin, "--web.listen-address=:9401", "--path.root=/", "--unit=" + o.Facts.Unit,
		"--service.report=" + gpuservice.File}
	var usage []string
	if o.Config.Usage {
		command = append(command, "--usage.report="+role.UsageReport)
		usage = []string{role.ExporterBin, "--usage.write=" + role.UsageReport, "--path.root=/"}
	} else {
		command = append(command, "--collect.usage=false")
	}
	if !o.Config.PCIeBandwidth {
		command = append(command, "--collect.pcie-bandwidth=false")
	}
	if o.Config.DCGMAliases {
		command = append(command, "--dcgm-aliases")
	}
	if leases(o, g) != nil {
		command = append(command, "--leases.report="+LeaseReport)
	}
	d.Exporter = g.Vendor == gpu.AMD && len(g.All) > 0
	d.Resources = append(d.Resources, resource.Absent{Path: role.JobsCredentials, Why: "this unit is a worker"})
	layer := resource.PebbleLayer{
		Service: role.ExporterService, Summary: "GPU metrics on port 9401", Command: command, User: "nobody", Group: "nogroup",
		Check: role.ExporterService, URL: role.ExporterURL, Job: "gpu-watch", JobCommand: []string{dispatchBin, "gpu", "watch"}, JobWrites: gpuservice.Dir}
	if usage != nil {
		layer.Helper, layer.HelperCommand = role.UsageService, usage
	}
	return role.DesirePebble(&d.Desired, o.Observed, "this unit has no AMD GPU to watch", d.Exporter, role.JobsService, layer)
}
