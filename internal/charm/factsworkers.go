package charm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/relation"
)

// Worker is what a unit that registers here published.
type Worker struct {
	Unit    string `json:"unit"`
	Key     string `json:"key,omitempty"`     // one OpenSSH line, "" where it has none yet
	Name    string `json:"name,omitempty"`    // under which it registers
	Address string `json:"address,omitempty"` // where its connections come from
	Problem string `json:"problem,omitempty"` // why its key is not taken

	GPUs    relation.WorkerGPUs `json:"gpus,omitzero"`
	GPUsOdd string              `json:"gpus_odd,omitempty"` // what it tells wrong of them
}

// resyncs reports whether the hook reads the bags of all workers again. All
// others read one unit's: a thousand workers join with a thousand hooks.
func resyncs(event string) bool {
	return slices.Contains([]string{"config-changed", "upgrade-charm", "start", "leader-elected"}, event)
}

// tsas reads what this unit told in its relations of tsa.
func (o *observer) tsas(ctx context.Context) (all []TSARelation, err error) {
	ids, err := o.relations(ctx, tsa)
	for _, id := range ids {
		r := TSARelation{ID: id}
		r.Own, err = o.t.RelationGet(ctx, id, o.e.Unit)
		if errors.Is(err, juju.ErrNotFound) {
			continue // the unit has not entered the relation yet; a hook follows when it has
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, err
}

// workers reads who may register: the remote units of all relations of tsa,
// and with mode=auto the other units of this application.
func (o *observer) workers(ctx context.Context, f *Facts, w *WebFacts) error {
	known := map[string]Worker{}
	if o.last.Web != nil && !resyncs(o.e.Name) {
		known = o.last.Web.Workers
	}
	w.Workers = map[string]Worker{}
	for _, r := range f.TSAs {
		if err := o.workersOf(ctx, r.ID, known, w.Workers); err != nil {
			return err
		}
	}
	if f.Peer != nil && modeOf(f.Config) == "auto" {
		if err := o.workersOf(ctx, f.Peer.ID, known, w.Workers); err != nil {
			return err
		}
	}
	w.Gone = o.gone(w.Workers)
	return nil
}

func (o *observer) workersOf(ctx context.Context, id string, known, all map[string]Worker) error {
	units, err := o.t.RelationUnits(ctx, id)
	if err != nil {
		return err
	}
	own := o.e.Relation != nil && o.e.Relation.ID == id
	for _, u := range units {
		if own && u == o.e.DepartingUnit && strings.HasSuffix(o.e.Name, "-relation-departed") {
			continue
		}
		key := id + " " + u
		if k, ok := known[key]; ok && !(own && u == o.e.RemoteUnit) {
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
		k.GPUs, problems = relation.ParseWorkerGPUs(bag)
		k.GPUsOdd = strings.Join(problems, ", ")
		all[key] = k
	}
	return nil
}

// gone are the workers whose key is to be taken back and that may still be
// connected: those of before, and those that have left since.
func (o *observer) gone(now map[string]Worker) []Worker {
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
			left = append(left, w)
		}
	}
	return slices.DeleteFunc(left, func(w Worker) bool { return keys[w.Key] })
}

// authorized are the keys that may register.
func (w *WebFacts) authorized() []string {
	var keys []string
	for _, k := range w.Workers {
		if k.Key != "" {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// related says whether a unit that is there may have the worker of that name.
func (w *WebFacts) related(worker string) bool {
	for k := range maps.Values(w.Workers) {
		if k.Name == worker || k.Name == "" {
			return true
		}
	}
	return false
}

// otherKeys are the lines of the web's file of keys that are no worker's of Juju's,
// now or lately. The key of a worker that the Python charm made for the web itself
// has no use.
func otherKeys(r host.Root, paths concourse.WebPaths, w *WebFacts) ([]string, error) {
	existing, err := readOptional(r, paths.AuthorizedKeys())
	if err != nil {
		return nil, err
	}
	unused, err := readOptional(r, paths.UnusedWorkerKey())
	if err != nil {
		return nil, err
	}
	known := append(w.authorized(), unused)
	for _, gone := range w.Gone {
		known = append(known, gone.Key)
	}
	return concourse.OtherKeys([]byte(existing), known), nil
}

// strangers is a remark on such lines.
func strangers(file string, others []string) []Cause {
	if len(others) == 0 {
		return nil
	}
	return []Cause{{Active, fmt.Sprintf("%s has keys of no related worker (%d), which may register: take their lines out to end that", file, len(others))}}
}

// maxRefused is how many workers a status names.
const maxRefused = 3

// refused are remarks on workers whose key is not taken, or that tell wrong of
// their GPUs.
func (w *WebFacts) refused() []Cause {
	var keys, gpus []string
	for _, k := range w.sortedWorkers() {
		if k.Problem != "" {
			keys = append(keys, k.Unit+" can't register: "+k.Problem)
		}
		if k.GPUsOdd != "" {
			gpus = append(gpus, k.Unit+" tells wrong of its GPUs: "+k.GPUsOdd)
		}
	}
	return append(few(keys, "%d more workers can't register either"), few(gpus, "%d more workers tell wrong of theirs, too")...)
}

// few are the first of many remarks: a status with a thousand of them would be
// read by nobody.
func few(texts []string, more string) (causes []Cause) {
	for _, text := range texts[:min(len(texts), maxRefused)] {
		causes = append(causes, Cause{Active, text})
	}
	if n := len(texts) - maxRefused; n > 0 {
		causes = append(causes, Cause{Active, fmt.Sprintf(more, n)})
	}
	return causes
}
