package worker

import (
	"path/filepath"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/oci/engines"
)

// enginesWrapper is no part of the charm's folder, as engines keep its path.
const enginesWrapper = role.EnginesDir + "/runc-amd-wrapper"

// enginesFor are the engines besides Concourse's that get the unit's GPUs.
func enginesFor(o Observed, g GPUs) []string {
	if g.Vendor != gpu.AMD || len(g.Chosen) == 0 {
		return nil
	}
	return o.Config.ContainerEngines
}

func desireEngines(d *Desired, o Observed, g GPUs) {
	names := enginesFor(o, g)
	if len(names) == 0 {
		d.Resources = append(d.Resources, leaveEngines("container-engines gives no other engine a GPU")...)
		return
	}
	d.Resources = append(d.Resources, resource.Dir{Path: role.EnginesDir, Mode: 0o755},
		resource.Copy{Path: enginesWrapper, From: filepath.Join(o.CharmDir, "bin", filepath.Base(enginesWrapper)), Mode: 0o755},
		engines.Unit{Engines: names, Wrapper: enginesWrapper})
}

func leaveEngines(why string) []plan.Resource {
	return []plan.Resource{engines.Unit{Wrapper: enginesWrapper}, resource.Absent{Path: role.EnginesDir, Why: why, Tree: true}}
}
