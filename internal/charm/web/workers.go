package web

import (
	"context"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// otherKeys returns the lines of the web's file of keys that belong to no current or recent
// worker of Juju. The Python charm's key of a worker on the web itself is not used, so it is
// not returned.
func otherKeys(r host.Root, paths concourse.WebPaths, w *model.Web) ([]string, error) {
	existing, err := role.ReadOptional(r, paths.AuthorizedKeys())
	if err != nil {
		return nil, err
	}
	unused, err := role.ReadOptional(r, paths.UnusedWorkerKey())
	if err != nil {
		return nil, err
	}
	known := append(w.Authorized(), unused)
	for _, l := range w.Departed {
		known = append(known, l.Key)
	}
	return concourse.OtherKeys([]byte(existing), known), nil
}

// extraKeys returns the keys of the option extra-worker-keys: for all teams, and by team.
func extraKeys(keys []config.WorkerKey) (all []string, teams map[string][]string) {
	teams = map[string][]string{}
	for _, k := range keys {
		if k.Team == "" {
			all = append(all, k.Line)
			continue
		}
		teams[k.Team] = append(teams[k.Team], k.Line)
	}
	return all, teams
}

// workerKeyFiles returns the files of authorized keys: for all teams, and by team if the
// option names teams.
func workerKeyFiles(o Observed, paths concourse.WebPaths) ([]resource.File, error) {
	all, teams := extraKeys(o.Config.Web.ExtraWorkerKeys)
	keys := o.Facts.Web.Authorized()
	for _, l := range o.draining() {
		keys = append(keys, l.Key)
	}
	files := []resource.File{paths.Authorized(keys, all, o.OtherKeys...)}
	if len(teams) == 0 {
		return files, nil
	}
	f, err := paths.Teams(teams)
	return append(files, f), err
}

// unknownKeys warns about lines of the file of keys that belong to no related worker.
func unknownKeys(file string, others []string) []status.Cause {
	if len(others) == 0 {
		return nil
	}
	return []status.Cause{status.Warn("workers with %d unknown keys may register", len(others)).
		Explain("the keys are in %s: move them to the option extra-worker-keys, or remove their lines", file)}
}

// refusedWorkers warns about workers with a refused key, or with invalid data about GPUs.
func refusedWorkers(w *model.Web) (causes []status.Cause) {
	var gpus []status.Cause
	for _, k := range w.SortedWorkers() {
		if k.Problem != "" {
			causes = append(causes, status.Warn("%s can't register: %s", k.Unit, k.Problem))
		}
		if k.DataProblem != "" {
			gpus = append(gpus, status.Warn("%s publishes wrong data: %s", k.Unit, k.DataProblem))
		}
	}
	return append(causes, gpus...)
}

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
