package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu"
)

// Where tasks have their GPUs for their own, the cluster shall send no more of
// them than there are GPUs: the worker says so itself, where its release can;
// else the web does, with its one limit for all workers. A task too many is refused.

// WorkerLimitFile remembers what the installed release says of itself, as asking
// it takes longer than the rest of a hook.
const WorkerLimitFile = model.StateDir + "/worker-limit.json"

// workerLimit is whether a release's workers can limit their tasks.
type workerLimit struct {
	Release string `json:"release"` // its id; "" where it was not asked
	Own     bool   `json:"own"`
}

// observeWorkerLimit asks the installed release, once for each. One that can't be
// asked is asked again in the next hook, and until then counts as one that can't.
func (o *Observed) observeWorkerLimit(ctx context.Context, h host.Host) error {
	_, id, installed := release.Installed(h.Root)
	if o.Config.GPUSharing != config.Exclusive || !installed {
		return nil
	}
	data, err := h.ReadFile(WorkerLimitFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return jujuerrors.Annotate(err, "cannot observe what the release can limit")
	}
	o.Asked = id
	if json.Unmarshal(data, &o.WorkerLimit) == nil && o.WorkerLimit.Release == id {
		return nil
	}
	o.WorkerLimit = workerLimit{}
	if own, err := concourse.LimitsItself(ctx, h); err == nil {
		o.WorkerLimit = workerLimit{Release: id, Own: own}
	}
	return nil
}

// desireWorkerLimit is how many tasks the worker takes at once, 0 for any
// number, and what is remembered for it.
func desireWorkerLimit(d *Desired, o Observed, g GPUs) (tasks int) {
	d.Asked = o.Asked
	switch data, err := json.Marshal(o.WorkerLimit); {
	case err != nil:
		d.Resources = append(d.Resources, role.Impossible{Err: err})
	case o.WorkerLimit.Release != "":
		d.Resources = append(d.Resources, resource.File{Path: WorkerLimitFile, Data: append(data, '\n'), Mode: 0o600})
	case o.Config.GPUSharing != config.Exclusive:
		d.Resources = append(d.Resources, resource.Absent{Path: WorkerLimitFile, Why: "GPUs are not leased"})
	}
	if d.GPUs.Limited {
		return max(len(g.Tagged), 1) // 0 would be any number
	}
	return 0
}

// publishedGPUs is what the web is told of the unit's GPUs, those that are withheld among
// them: its one limit for all workers holds where all have the same number, and one sick
// GPU must not end that for all.
func publishedGPUs(o Observed, g GPUs) relation.WorkerGPUs {
	if len(g.Chosen) == 0 {
		return relation.WorkerGPUs{}
	}
	tags := gpuTags(g, g.Chosen)
	exclusive := leases(o, g) != nil
	return relation.WorkerGPUs{Runtime: tags.Runtime, Count: tags.Count, Archs: relation.CountArchs(tags.Archs),
		Exclusive: exclusive, Limited: exclusive && o.WorkerLimit.Own, Each: eachGPU(o, g)}
}

// eachGPU is what the web is told of each GPU that tasks get, for people who look at all
// workers: nothing is decided on it.
func eachGPU(o Observed, g GPUs) (each []relation.PublishedGPU) {
	for i, of := range g.All {
		if !contains(g.Chosen, of) {
			continue
		}
		name := gpu.Slot(of.PCI, of.Partition)
		one := relation.PublishedGPU{Index: i, GFX: of.GFX, Model: of.Name}
		if s := o.Service.Find(name); s != nil && g.Vendor == gpu.AMD {
			one.Service = string(s.State)
		}
		if held, known := o.Held[name]; known && o.Config.GPUSharing == config.Exclusive {
			one.Leased = &held
		}
		each = append(each, one)
	}
	return each
}
