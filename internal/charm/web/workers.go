package web

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
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
