package role

import (
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse/release"
)

// Desired holds the part of the desired state that both roles have.
type Desired struct {
	Resources []plan.Resource
	Causes    []status.Cause // reasons why the unit is not ready, as far as they are known before applying
	Release   release.Release
	Trusted   []relation.Authority // from relations

	Remove    bool // the unit is being removed
	EndsTasks bool // see function EndsTasks
	// Refused has the reasons why nothing is done: the Python charm's service cannot be
	// taken over yet and keeps running.
	Refused []status.Cause
}

// RunningTasks is the disruption of a worker's stop. A restart does not disrupt tasks: their
// containers keep running, and the new process takes them over.
const RunningTasks = "running tasks"

// EndsTasks reports whether the operator ended the worker's tasks by removing the unit or
// its relation to the web. The temporary absence of a web does not end them. A removed unit
// breaks its relations first, the relation of the peers last. Only then the other units see
// it leave (Juju, uniter/relation/relationer.go: die). So its tasks end in that hook and
// not in stop. With mode=worker the missing relation is sufficient, because the hook that
// saw it end may have failed.
func EndsTasks(event string, f model.Facts) bool {
	if f.Mode() == "worker" && len(f.Flights) == 0 {
		return true
	}
	return model.Leaving(event) || f.Mode() == "auto" && event == "peers-relation-broken"
}

// TakeOver removes the files of the Python charm. It comes after the unit's service is set
// up, and before an exporter, because the Python charm's exporter has its port.
func (d *Desired) TakeOver(o Observed) {
	d.Resources = append(d.Resources, o.Predecessor...)
}
