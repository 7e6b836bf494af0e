package worker

import (
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/pool/quarantine"
)

// desireExporter is Pebble with the GPU exporter, on units that have GPUs and were asked
// to use them.
func desireExporter(d *Desired, o Observed, g GPUs) error {
	layer := resource.PebbleLayer{Service: role.ExporterService, Summary: "GPU metrics on port 9401", User: "nobody", Group: "nogroup",
		Check: role.ExporterService, URL: role.ExporterURL,
		Command: []string{role.ExporterBin, "--web.listen-address=:9401", "--path.root=/", "--unit=" + o.Facts.Unit, "--disk.folder=" + concourse.WorkFolder(o.Shared()), "--vendor=" + string(g.Vendor)}}
	switch g.Vendor {
	case gpu.NVIDIA:
		watchNVIDIA(&layer, o, g)
	default:
		watchAMD(&layer, o)
	}
	if o.Config.ExporterDCGMAliases {
		layer.Command = append(layer.Command, "--dcgm-aliases")
	}
	if leases(o, g) != nil {
		layer.Command = append(layer.Command, "--leases.report="+LeaseReport)
	}
	d.Exporter = len(g.All) > 0
	d.Resources = append(d.Resources, resource.Absent{Path: role.JobsCredentials, Why: "this unit is a worker"})
	return role.DesirePebble(&d.Desired, o.Observed, "this unit has no GPU to watch", d.Exporter, role.JobsService, layer)
}

// watchAMD adds what is decided and looked up by root for AMD's GPUs.
func watchAMD(l *resource.PebbleLayer, o Observed) {
	l.Command = append(l.Command, "--service.report="+quarantine.File)
	l.Job, l.JobCommand = "gpu-watch", []string{dispatchBin, "gpu", "watch"}
	if o.Config.ExporterUsage {
		l.Command = append(l.Command, "--usage.report="+role.UsageReport)
		l.Helper, l.HelperCommand = role.UsageService, []string{role.ExporterBin, "--usage.write=" + role.UsageReport, "--path.root=/"}
	} else {
		l.Command = append(l.Command, "--collect.usage=false")
	}
	if !o.Config.ExporterPCIeBandwidth {
		l.Command = append(l.Command, "--collect.pcie-bandwidth=false")
	}
}

// watchNVIDIA is the same for NVIDIA's: nvidia-smi is asked by root. Nobody withholds these
// GPUs, and no file of the kernel tells who uses them.
func watchNVIDIA(l *resource.PebbleLayer, o Observed, g GPUs) {
	l.Command = append(l.Command, "--collect.usage=false", "--nvidia.report="+role.NVIDIAReport)
	l.Helper, l.HelperCommand = role.NVIDIAService, []string{role.ExporterBin, "--nvidia.write=" + role.NVIDIAReport, "--path.root=/"}
	if leases(o, g) != nil {
		l.Job, l.JobCommand = "gpu-leases", []string{dispatchBin, "gpu", "leases"}
	}
}
