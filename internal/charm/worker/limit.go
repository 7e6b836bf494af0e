package worker

import (
	"context"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

// If tasks lease GPUs, the cluster must not send more tasks than there are GPUs. The worker
// sets this limit itself if its release supports it. Otherwise the web sets one limit for
// all workers. An additional task is refused.

// WorkerLimitFile caches whether the installed release can limit its tasks, because running
// the release takes longer than the rest of a hook.
const WorkerLimitFile = wellknown.StateDir + "/worker-limit.json"

// workerLimit records whether the workers of a release can limit their tasks.
type workerLimit struct {
	Release   string `json:"release"` // its id; "" if unknown
	Supported bool   `json:"supported"`
}

var limitState = statefile.File[workerLimit]{Path: WorkerLimitFile, Mode: 0o600, Disposable: true}

// observeWorkerLimit runs the installed release once to see whether it can limit its tasks.
// If that fails, the next hook tries again, and the release is treated as unable until
// then.
func (o *Observed) observeWorkerLimit(ctx context.Context, h host.Host) error {
	_, id, installed := release.Installed(h.Root)
	if o.Config.GPU.Sharing != config.Exclusive || !installed {
		return nil
	}
	last, err := limitState.Read(h.Root)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot read which limits the release supports")
	}
	o.LimitRelease = id
	if last.Release == id {
		o.WorkerLimit = last
		return nil
	}
	o.WorkerLimit = workerLimit{}
	if own, err := concourse.LimitsItself(ctx, h); err == nil {
		o.WorkerLimit = workerLimit{Release: id, Supported: own}
	}
	return nil
}

// desireWorkerLimit returns the cache of the release's answer.
func desireWorkerLimit(o Observed) (p part) {
	switch data, err := limitState.Encode(o.WorkerLimit); {
	case err != nil:
		p.err = err
	case o.WorkerLimit.Release != "":
		p.add(resource.File{Path: WorkerLimitFile, Data: data, Mode: 0o600})
	case o.Config.GPU.Sharing != config.Exclusive:
		p.add(resource.Absent{Path: WorkerLimitFile, Why: "GPUs are not leased"})
	}
	return p
}

// maxTasks returns how many tasks the worker takes at once, 0 for any number.
func maxTasks(o Observed, g GPUs) int {
	if !publishedGPUs(o, g).Limited {
		return 0
	}
	return max(len(g.Tagged), 1)
}

// publishedGPUs returns the unit's GPUs for the web, including quarantined GPUs and the
// number of missing ones. The web's limit requires equal numbers on all workers, and one
// quarantined or missing GPU must not remove the limit.
func publishedGPUs(o Observed, g GPUs) relation.WorkerGPUs {
	if len(g.Chosen)+len(g.Missing) == 0 {
		return relation.WorkerGPUs{}
	}
	tags := gpuTags(g, g.Chosen)
	exclusive := o.Config.GPU.Sharing == config.Exclusive
	return relation.WorkerGPUs{Runtime: tags.Runtime, Count: tags.Count, Missing: len(g.Missing),
		Archs: relation.CountArchs(tags.Archs), Exclusive: exclusive,
		Limited: exclusive && o.WorkerLimit.Supported, Each: eachGPU(o, g)}
}

// eachGPU returns each GPU of the tasks for the web's table of all workers. Nothing is
// decided from it.
func eachGPU(o Observed, g GPUs) (each []fleetfile.GPU) {
	records := pool.Records{Leases: o.Leases, Service: &o.Quarantine}
	for _, one := range g.All {
		if !contains(g.Chosen, one) {
			continue
		}
		record := records.Of(one.Slot, o.Now)
		if !g.Vendor.Has(gpu.Quarantine) {
			record.Service = nil // it is not watched
		}
		published := relation.NewPublishedGPU(record, one.Model)
		each = append(each, published)
	}
	return each
}
