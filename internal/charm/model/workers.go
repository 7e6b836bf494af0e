package model

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/relation"
)

// Worker is what a unit that registers here published.
type Worker struct {
	Unit    string `json:"unit"`
	Key     string `json:"key,omitempty"`     // one OpenSSH line, "" where it has none yet
	Name    string `json:"name,omitempty"`    // under which it registers
	Address string `json:"address,omitempty"` // where its connections come from
	Problem string `json:"problem,omitempty"` // why its key is not taken

	Version string        `json:"version,omitempty"` // of Concourse that it runs; "" from older charms
	Drain   time.Duration `json:"drain,omitempty"`   // what its running tasks get when it leaves

	GPUs    relation.WorkerGPUs `json:"gpus,omitzero"`
	GPUsOdd string              `json:"gpus_odd,omitempty"` // what is wrong with what it publishes of them
}

// Resyncs reports whether the hook reads the bags of all workers again. All
// others read one unit's: a thousand workers join with a thousand hooks.
func Resyncs(event string) bool {
	return slices.Contains([]string{"config-changed", "upgrade-charm", "start", "leader-elected"}, event)
}

// workers reads who may register: the remote units of all relations of tsa,
// and with mode=auto the other units of this application.
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
	if f.Peer != nil && f.Mode() == "auto" {
		if err := o.workersOf(ctx, f.Peer.ID, known, w.Workers); err != nil {
			return err
		}
	}
	w.Gone = o.gone(w.Workers)
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
		bag, err := o.t.RelationGet(ctx, id, u)
		if err != nil {
			return err
		}
		k := Worker{Unit: u, Address: bag["ingress-address"]}
		var problems []string
		k.Key, k.Name, problems = relation.ParseWorker(bag)
		k.Problem = strings.Join(problems, ", ")
		k.Version = relation.WorkerVersion(bag)
		k.Drain, _ = relation.ParseDrain(bag, config.MaxDrainTimeout)
		k.GPUs, problems = relation.ParseWorkerGPUs(bag)
		k.GPUsOdd = strings.Join(problems, ", ")
		all[key] = k
	}
	return nil
}

// Leaver describes a worker that left. Juju ends a relation on both sides at once, so its
// tasks may still run. It keeps its key for the time that it announced.
type Leaver struct {
	Worker
	Until time.Time `json:"until,omitzero"` // zero: it is cut off at once
}

// lateDrain bounds how much later than this web a worker sees its relation end. A hook that
// runs there, such as the installation of a driver, comes first.
const lateDrain = 15 * time.Minute

// Keeps reports whether the worker may still drain. What a worker announces, or a clock
// that was set back, never keeps a key longer than the longest time of the option.
func (l Leaver) Keeps(now time.Time) bool {
	return now.Before(l.Until) && l.Until.Sub(now) <= config.MaxDrainTimeout+lateDrain
}

// gone returns the workers whose key is to be taken back and that may still be
// connected: those of before, and those that have left since.
func (o *observer) gone(now map[string]Worker) []Leaver {
	if o.last.Web == nil {
		return nil
	}
	keys := map[string]bool{}
	for _, w := range now {
		keys[w.Key] = true
	}
	left := slices.Clone(o.last.Web.Gone)
	for _, at := range slices.Sorted(maps.Keys(o.last.Web.Workers)) {
		if w := o.last.Web.Workers[at]; w.Key != "" && !keys[w.Key] {
			l := Leaver{Worker: w}
			if w.Drain > 0 {
				l.Until = o.now.Add(w.Drain + lateDrain).UTC()
			}
			left = append(left, l)
		}
	}
	return slices.DeleteFunc(left, func(l Leaver) bool { return keys[l.Key] })
}

// Authorized are the keys that may register.
func (w *Web) Authorized() []string {
	var keys []string
	for _, k := range w.Workers {
		if k.Key != "" {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// SortedWorkers are the workers by relation and unit.
func (w *Web) SortedWorkers() (all []Worker) {
	for _, at := range slices.Sorted(maps.Keys(w.Workers)) {
		all = append(all, w.Workers[at])
	}
	return all
}

// Left reports whether the worker of that name left, and is not cut off yet.
func (w *Web) Left(worker string) bool {
	return slices.ContainsFunc(w.Gone, func(l Leaver) bool { return l.Name == worker })
}

// Related says whether a unit that is there may have the worker of that name.
func (w *Web) Related(worker string) bool {
	for _, k := range w.Workers {
		if k.Name == worker || k.Name == "" {
			return true
		}
	}
	return false
}
