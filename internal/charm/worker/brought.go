package worker

import (
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/cdi"
	"concourse-ci-machine/internal/gpu/nvidia"
	"concourse-ci-machine/internal/pool/quarantine"
)

// What the charm brought for GPUs is known without a record that could be lost:
// its files have names of their own, or a mark in them where the name is not the
// charm's to choose. Only packages are noted, before they are installed
// (resource.Brought).

// takeBack takes away what the charm brought for a vendor whose GPUs the operator
// does not want any more. With compute-runtime=auto a GPU that is gone may come
// back, so only the other vendor's in its place is such a word.
func takeBack(o Observed, g GPUs) []plan.Resource {
	wanted := func(v gpu.Vendor) bool {
		return g.Vendor == v || g.Vendor == "" && o.Config.ComputeRuntime == "auto"
	}
	why := "compute-runtime is " + o.Config.ComputeRuntime
	var rs []plan.Resource
	if !wanted(gpu.AMD) {
		rs = append(append(rs, leaveAMD(o.Observed, why)...), leaveService(o.CharmDir, why)...)
		rs = append(rs, resource.AllAbsent(why, quarantine.File, quarantine.AdmissionFile)...)
	}
	if !wanted(gpu.NVIDIA) {
		rs = append(rs, nvidia.Leave(why)...)
	}
	return rs
}

// leaveAMD is all that the charm brought for AMD's GPUs, user space and driver
// among it, but their description, which goes with the last GPU of a task.
func leaveAMD(o role.Observed, why string) []plan.Resource {
	rs := amd.Gone(amd.DriverFacts{Kernel: o.Kernel}, amd.Environment{Seen: o.Install}, why)
	return append(append(rs, resource.AllAbsent(why, amd.ToolkitFiles()...)...), amd.ForgetToolkit(why), amd.LeaveToolkit(why))
}

// leaveGPUs is a unit without GPUs, and without all that the charm brought for
// them.
func leaveGPUs(o role.Observed, why string) []plan.Resource {
	rs := append(resource.AllAbsent(why, refreshFiles()...), leaveAMD(o, why)...)
	return append(append(rs, nvidia.Leave(why)...), cdi.Gone{Why: why})
}
