package role

import (
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse/release"
)

// Desired is what the machine should be in either role. What only a worker or a web
// has is in the packages of these.
type Desired struct {
	Resources []plan.Resource
	Causes    []status.Cause // why the unit is not ready, as far as it can be known before applying
	Release   release.Release
	Trusted   []relation.Authority // those of relations

	Remove    bool // the unit is going away
	EndsTasks bool // the operator ended the worker's tasks, see the function
	// Refused is why nothing at all is done: the Python charm's service can't be
	// taken over yet, and runs on.
	Refused []status.Cause
}

// RunningTasks is what stopping a worker for good disrupts. Restarting one
// does not: its containers live on and the new process takes them over.
const RunningTasks = "running tasks"

// EndsTasks reports whether the operator ended the worker's tasks: by removing the unit,
// or its relation to the web. A web that goes away for a while does not end them. A unit
// that is removed breaks its relations first, that of the peers last, and only then the
// others see it go (Juju, uniter/relation/relationer.go: die). So its tasks end in the
// hook before, not in stop. With mode=worker the missing relation is enough: the hook
// that saw it end may have failed.
func EndsTasks(event string, f model.Facts) bool {
	if f.Mode() == "worker" && len(f.Flights) == 0 {
		return true
	}
	return model.Leaving(event) || f.Mode() == "auto" && event == "peers-relation-broken"
}

// TakeOver comes when the unit's own service is as it should be, and before an
// exporter, whose port the Python charm's has.
func (d *Desired) TakeOver(o Observed) {
	d.Resources = append(d.Resources, o.Predecessor...)
}
