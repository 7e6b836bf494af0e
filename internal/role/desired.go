package role

import (
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/relation"
	"concourse-ci-machine/internal/release"
	"concourse-ci-machine/internal/status"
)

// Desired is what the machine should be in either role. What only a worker or a web
// has is in the packages of these.
type Desired struct {
	Resources []plan.Resource
	Causes    []status.Cause // why the unit is not ready, as far as it can be known before applying
	Release   release.Release
	Trusted   []relation.Authority // those of relations

	Remove bool // the unit is going away
	// Refused is why nothing at all is done: the Python charm's service can't be
	// taken over yet, and runs on.
	Refused []status.Cause
}

// RunningTasks is what stopping a worker for good disrupts. Restarting one
// does not: its containers live on and the new process takes them over.
const RunningTasks = "running tasks"

// EndsTasks reports whether the operator's doing ends the worker's tasks. A unit that
// is removed breaks its relations first, that of the peers last, and only then the
// others see it go: the web takes its key back and cuts it off, so what runs has to
// end in the hook before, not in stop (Juju, uniter/relation/relationer.go: die).
func EndsTasks(event string) bool {
	return model.Leaving(event) || event == "flight-relation-broken" || event == "peers-relation-broken"
}

// TakeOver comes when the unit's own service is as it should be, and before an
// exporter, whose port the Python charm's has.
func (d *Desired) TakeOver(o Observed) {
	d.Resources = append(d.Resources, o.Predecessor...)
}
