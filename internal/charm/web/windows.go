package web

import (
	"context"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// A worker on Windows has no unit and publishes no databag. Its tags in Concourse describe its
// GPUs, and only an operator's key in extra-worker-keys admits it.

// onWindows returns the workers on Windows that Concourse lists and that no unit has, in the
// order of known.
func onWindows(related []model.Worker, known []concourse.WorkerInfo) (workers []model.Worker) {
	for _, k := range known {
		has := slices.ContainsFunc(related, func(w model.Worker) bool { return w.Name == k.Name })
		if k.Platform != beacon.Windows || has {
			continue
		}
		w := model.Worker{Name: k.Name}
		if g := beacon.GPUsOf(k.Tags); g.Count > 0 {
			w.GPUs = relation.WorkerGPUs{Runtime: g.Runtime, Count: g.Count, Archs: relation.CountArchs(g.Archs)}
		}
		workers = append(workers, w)
	}
	return workers
}

// RunningOnWindows returns the running workers on Windows that no unit has.
func RunningOnWindows(related []model.Worker, known []concourse.WorkerInfo) []model.Worker {
	return onWindows(related, slices.DeleteFunc(slices.Clone(known), func(k concourse.WorkerInfo) bool {
		return k.State != running
	}))
}

// running is the state of a worker that takes tasks.
const running = "running"

// windowsWorkers asks Concourse for running workers on Windows, if required architectures
// depend on them. Without an answer there are none.
func windowsWorkers(ctx context.Context, o Observed) []model.Worker {
	related := o.Facts.Web.SortedWorkers()
	required := o.Config.Web.RequiredArchs
	extra := len(o.Config.Web.ExtraWorkerKeys) + len(o.OtherKeys)
	if extra == 0 || !o.Units[concourse.WebUnit].Running() || len(CoverageOf(related, required).Missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	known, err := apiOf(o).Workers(ctx)
	if err != nil {
		return nil
	}
	return RunningOnWindows(related, known)
}
