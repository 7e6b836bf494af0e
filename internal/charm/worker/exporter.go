package worker

import (
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/pool/quarantine"
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
	switch g.Vendor {
	case gpu.NVIDIA:
		watchNVIDIA(&layer, o, g)
	default:
		watchAMD(&layer, o)
	}
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

// watchAMD adds the reports on AMD GPUs that programs of root write for the exporter.
func watchAMD(l *resource.PebbleLayer, o Observed) {
	l.Command = append(l.Command, "--service.report="+quarantine.File)
	l.Job, l.JobCommand = "gpu-watch", []string{dispatchBin, "gpu", "watch"}
	if o.Config.Exporter.Usage {
		l.Command = append(l.Command, "--usage.report="+role.UsageReport)
		l.Helper, l.HelperCommand = role.UsageService, []string{
			role.ExporterBin, "--usage.write=" + role.UsageReport, "--path.root=/",
		}
	} else {
		l.Command = append(l.Command, "--collect.usage=false")
	}
	if !o.Config.Exporter.PCIeBandwidth {
		l.Command = append(l.Command, "--collect.pcie-bandwidth=false")
	}
}

// watchNVIDIA adds the report of nvidia-smi, which root runs. NVIDIA GPUs have no
// quarantine, and the kernel has no file with their users.
func watchNVIDIA(l *resource.PebbleLayer, o Observed, g GPUs) {
	l.Command = append(l.Command, "--collect.usage=false", "--nvidia.report="+role.NVIDIAReport)
	l.Helper, l.HelperCommand = role.NVIDIAService, []string{
		role.ExporterBin, "--nvidia.write=" + role.NVIDIAReport, "--path.root=/",
	}
	if leaseConfig(o, g) != nil {
		l.Job, l.JobCommand = "gpu-leases", []string{dispatchBin, "gpu", "leases"}
	}
}
