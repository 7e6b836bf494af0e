package worker

import (
	"time"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/kube/nodelabels"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
)

// Stop ends what runs of a worker, after its tasks had limit to finish.
func Stop(o role.Observed, why, disrupts string, limit time.Duration) []plan.Resource {
	return []plan.Resource{
		concourse.Drain{State: o.Units[concourse.Unit], Limit: limit, Why: why, Disrupts: disrupts},
		resource.Service{Unit: RefreshUnit, State: o.Units[RefreshUnit], Why: why},
		resource.Service{Unit: PluginUnit, State: o.Units[PluginUnit], Why: why},
	}
}

// Gone is a web's unit without what a worker left: its role can change
// when another unit leads (D3, D21). The key stays, as the role may come back, and so
// does what was brought for GPUs.
func RemoveForWeb(o role.Observed) []plan.Resource {
	why := "this unit is the web"
	rs := append(Stop(o, why, "", 0), resource.AllAbsent(why, refreshFiles()...)...)
	rs = append(append(rs, removeWatch(o.CharmDir, why)...), resource.AllAbsent(why, pluginFile, pluginBin, nodelabels.File)...)
	rs = append(append(rs, resource.Absent{Path: role.ToolsDir, Why: why, Tree: true}, resource.Absent{Path: concourse.CertsFolders, Why: why, Tree: true}), removeEngines(why)...)
	return append(rs, resource.AllAbsent(why, concourse.UnitFile, concourse.EnvFile, concourse.TSAHostKey, role.LandedFile, WorkerLimitFile, tagsFile)...)
}

// Leave is a unit without anything that a worker brought, once Stop ended what runs.
// Volumes stay: they may be shared, and hold no secret.
func RemoveAll(o role.Observed, why string) []plan.Resource {
	rs := append([]plan.Resource{clockReset{o.CharmDir, why}}, resource.AllAbsent(why, concourse.UnitFile, oci.DefaultConfig, LeaseReport, pluginFile, pluginBin, nodelabels.File)...)
	rs = append(append(rs, removeGPUs(o, why)...), removeEngines(why)...)
	for _, dir := range []string{concourse.ConfigDir, lease.DefaultDir, quarantine.Dir} {
		rs = append(rs, resource.Absent{Path: dir, Why: why, Tree: true})
	}
	return rs
}
