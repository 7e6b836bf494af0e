package worker

import (
	"path/filepath"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Stop ends the worker and its services, after tasks had limit to finish.
func Stop(o role.Observed, why, disrupts string, limit time.Duration) []plan.Resource {
	drain := concourse.Drain{State: o.Units[concourse.Unit], Limit: limit, Why: why, Disrupts: disrupts}
	return append(append([]plan.Resource{drain}, stopRefresh(o.Units, why)...),
		stopKubernetes(o, PluginUnit, why), stopKubernetes(o, DriverUnit, why),
		resource.Service{Unit: RecorderUnit, State: o.Units[RecorderUnit], Why: why},
	)
}

// RemoveForWeb removes the worker from a unit that is now the web: a role can change when
// another unit becomes the leader (D3, D21). The key and what was installed for GPUs stay,
// because the role may change back.
func RemoveForWeb(o role.Observed) []plan.Resource {
	why := "this unit is the web"
	rs := append(Stop(o, why, "", 0), resource.AllAbsent(why, refreshFiles()...)...)
	rs = append(append(rs, removeWatch(o.CharmDir, why)...),
		resource.AllAbsent(why, append(kubernetesFiles(), nodelabels.File)...)...)
	rs = append(rs, recorderFiles(why)...)
	rs = append(
		append(rs, resource.Absent{Path: role.ToolsDir, Why: why, Tree: true}, resource.Absent{
			Path: concourse.CertsFolders, Why: why, Tree: true,
		}),
		removeEngines(why)...,
	)
	return append(rs,
		resource.AllAbsent(why, concourse.UnitFile, concourse.EnvFile, concourse.TSAHostKey, role.LandedFile,
			WorkerLimitFile, tagsFile)...)
}

// RemoveAll removes everything that a worker installed, after Stop. Volumes stay: they may
// be shared, and hold no secret.
func RemoveAll(o role.Observed, why string) []plan.Resource {
	rs := append([]plan.Resource{ClockReset{filepath.Join(o.CharmDir, "dispatch"), why}},
		resource.AllAbsent(why, concourse.UnitFile, oci.DefaultConfig, pool.ReportFile, nodelabels.File)...)
	rs = append(rs, resource.AllAbsent(why, kubernetesFiles()...)...)
	rs = append(append(rs, recorderFiles(why)...), removeGPUs(o, why)...)
	rs = append(rs, removeEngines(why)...)
	for _, dir := range []string{concourse.ConfigDir, lease.DefaultDir} {
		rs = append(rs, resource.Absent{Path: dir, Why: why, Tree: true})
	}
	return rs
}

// What the charm installed for GPUs is found without a record that could be lost: the files
// have unique names, or a mark in the content if the name is fixed. Only packages are
// recorded, before they are installed (resource.Brought).

// removeOtherVendor removes what the charm installed for a vendor that the options exclude.
// With compute-runtime=auto a missing GPU may come back. Only GPUs of another vendor
// exclude the vendor then.
func removeOtherVendor(o Observed, g GPUs) []plan.Resource {
	why := "compute-runtime is " + string(o.Config.GPU.ComputeRuntime)
	var rs []plan.Resource
	for _, v := range gpu.Vendors() {
		if g.Vendor == v || g.Vendor == "" && o.Config.GPU.ComputeRuntime == config.RuntimeAuto {
			continue
		}
		rs = append(rs, vendors[v].uninstall(o.Observed, why)...)
		if v.Has(gpu.Quarantine) {
			rs = append(append(rs, removeWatch(o.CharmDir, why)...),
				resource.AllAbsent(why, quarantine.File, quarantine.AdmissionFile)...)
		}
	}
	return rs
}

// removeGPUs removes everything that the charm installed for GPUs.
func removeGPUs(o role.Observed, why string) []plan.Resource {
	rs := resource.AllAbsent(why, refreshFiles()...)
	for _, v := range gpu.Vendors() {
		rs = append(rs, vendors[v].uninstall(o, why)...)
	}
	return append(rs, cdi.Absent{Why: why})
}
