package model

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
)

// Worker holds the data that the unit of a worker published.
type Worker struct {
	Unit    string `json:"unit"`
	Key     string `json:"key,omitempty"`     // one OpenSSH line, "" if unpublished
	Name    string `json:"name,omitempty"`    // of the worker at the web
	Address string `json:"address,omitempty"` // source of its connections
	Problem string `json:"problem,omitempty"` // reason why its key is refused

	Version string        `json:"version,omitempty"` // of its Concourse; "" from the Python charm
	Drain   time.Duration `json:"drain,omitempty"`   // time for its running tasks when it leaves

	GPUs        relation.WorkerGPUs `json:"gpus,omitzero"`
	DataProblem string              `json:"data_problem,omitempty"` // problems of other published data
}

// Resyncs reports whether the hook reads the databags of all workers again. Other hooks read
// one unit's databag, because a thousand workers join with a thousand hooks.
func Resyncs(event string) bool {
	return slices.Contains([]string{"config-changed", "upgrade-charm", "start", "leader-elected"}, event)
}

// workers reads the workers that may register: the remote units of all relations of tsa and,
// with mode=auto or all, the units of this application.
func (o *observer) workers(ctx context.Context, f *Facts, w *Web) error {
	known := map[string]Worker{}
	if o.last.Web != nil && !Resyncs(o.e.Name) {
		known = o.last.Web.Workers
	}
	w.Workers = map[string]Worker{}
	for _, r := range f.TSAs {
		if err := o.workersOf(ctx, r.ID, known, w.Workers); err != nil {
			return err
		}
	}
	if f.Peer != nil && f.LeaderIsWeb() {
		if err := o.workersOf(ctx, f.Peer.ID, known, w.Workers); err != nil {
			return err
		}
	}
	if f.Peer != nil && f.Role == AllRole { // Juju lists only the other units
		w.Workers[f.Peer.ID+" "+o.e.Unit] = workerOf(o.e.Unit, w.Address, f.Peer.Own)
	}
	var last map[string]Worker
	if o.last.Web != nil {
		last = o.last.Web.Workers
	}
	ownNames(w.Workers, last)
	w.Departed = o.departed(w.Workers)
	return nil
}

func (o *observer) workersOf(ctx context.Context, id string, known, all map[string]Worker) error {
	units, err := o.units(ctx, id)
	if err != nil {
		return err
	}
	for _, u := range units {
		key := id + " " + u
		if k, ok := known[key]; ok && !(o.ofHook(id) && u == o.e.RemoteUnit) {
			all[key] = k
			continue
		}
		bag, exists, err := o.bag(ctx, id, u)
		if err != nil {
			return err
		}
		if exists {
			all[key] = workerOf(u, bag["ingress-address"], bag)
		}
	}
	return nil
}

// workerOf parses the data that the unit of a worker published.
func workerOf(unit, address string, bag map[string]string) Worker {
	k := Worker{Unit: unit, Address: address}
	var problems []string
	k.Key, k.Name, problems = relation.ParseWorker(bag)
	k.Problem = strings.Join(problems, ", ")
	k.Version = relation.WorkerVersion(bag)
	k.Drain, _ = relation.ParseDrain(bag, config.MaxDrainTimeout)
	k.GPUs, problems = relation.ParseWorkerGPUs(bag)
	k.DataProblem = strings.Join(problems, ", ")
	return k
}

// DepartedWorker holds a worker that left. Juju ends a relation on both sides at once, so
// its tasks may still run. It keeps its key for the time that it announced.
type DepartedWorker struct {
	Worker
	Until time.Time `json:"until,omitzero"` // end of the drain; zero to disconnect it at once
	// Replaced reports that the unit did not leave: it published another key. The previous key
	// is removed at once.
	Replaced bool `json:"replaced,omitempty"`
}

// lateDrain bounds how much later than this web a worker sees the end of its relation. A
// hook that already runs there, such as the installation of a driver, delays it.
const lateDrain = 15 * time.Minute

// MayDrain reports whether the worker keeps its key. The published time and a clock that was
// set back cannot extend the drain beyond the maximum of the option.
func (l DepartedWorker) MayDrain(now time.Time) bool {
	return now.Before(l.Until) && l.Until.Sub(now) <= config.MaxDrainTimeout+lateDrain
}

// departed returns the workers that may still be connected although their key must be
// removed: workers from the previous hook, and workers that have left since.
func (o *observer) departed(now map[string]Worker) []DepartedWorker {
	if o.last.Web == nil {
		return nil
	}
	keys := map[string]bool{}
	for _, w := range now {
		keys[w.Key] = true
	}
	all := slices.Clone(o.last.Web.Departed)
	for _, at := range slices.Sorted(maps.Keys(o.last.Web.Workers)) {
		if w := o.last.Web.Workers[at]; w.Key != "" && !keys[w.Key] {
			l := DepartedWorker{Worker: w, Replaced: now[at].Key != ""}
			if w.Drain > 0 && !l.Replaced {
				l.Until = o.now.Add(w.Drain + lateDrain).UTC()
			}
			all = append(all, l)
		}
	}
	return slices.DeleteFunc(all, func(l DepartedWorker) bool { return keys[l.Key] })
}

// WithKey returns the Facts with a worker's key that is not published yet. The worker is on
// this unit.
func (f Facts) WithKey(key string) Facts {
	if f.Peer == nil || key == "" {
		return f
	}
	w, at := *f.Web, f.Peer.ID+" "+f.Unit
	w.Workers = maps.Clone(w.Workers)
	own := w.Workers[at]
	own.Unit, own.Address, own.Key = f.Unit, w.Address, key
	w.Workers[at], f.Web = own, &w
	return f
}

// WithGPUs returns the Facts with the GPUs of this unit's worker, and whether a web decides
// otherwise by them than by the published ones.
func (f Facts) WithGPUs(gpus relation.WorkerGPUs) (with Facts, differ bool) {
	if f.Peer == nil || f.Web == nil {
		return f, false
	}
	w, at := *f.Web, f.Peer.ID+" "+f.Unit
	own := w.Workers[at]
	if maps.Equal(own.GPUs.WithoutEach().Databag(), gpus.WithoutEach().Databag()) {
		return f, false
	}
	w.Workers = maps.Clone(w.Workers)
	own.GPUs, own.Unit = gpus, f.Unit
	w.Workers[at], f.Web = own, &w
	return f, true
}

// Authorized returns the keys of workers that may register.
func (w *Web) Authorized() []string {
	var keys []string
	for _, k := range w.Workers {
		if k.Key != "" {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// SortedWorkers returns the workers by relation and unit.
func (w *Web) SortedWorkers() (all []Worker) {
	for _, at := range slices.Sorted(maps.Keys(w.Workers)) {
		all = append(all, w.Workers[at])
	}
	return all
}

// HasLeft reports whether the worker left and was not disconnected yet.
func (w *Web) HasLeft(worker string) bool {
	return slices.ContainsFunc(w.Departed, func(l DepartedWorker) bool { return l.Name == worker && !l.Replaced })
}

// Has reports whether a related unit has the worker of that name.
func (w *Web) Has(worker string) bool {
	for _, k := range w.Workers {
		if k.Name == worker {
			return true
		}
	}
	return false
}

// Related reports whether a related unit has the worker of that name, or may have it because
// its name is unknown.
func (w *Web) Related(worker string) bool { return w.Has(worker) || w.Has("") }
