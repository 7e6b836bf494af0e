// Package role has the common parts of both roles: their observed and desired state, the
// release, Pebble and the charm's programs. Packages worker and web decide on top of it. It
// never changes the machine: package charm applies the resources.
package role

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// Desired holds the part of the desired state that both roles have.
type Desired struct {
	Resources []plan.Resource
	Causes    []status.Cause // reasons why the unit is not ready, as far as they are known before applying
	Release   release.Release
	Trusted   []relation.Authority // from relations
	Pebble    []PebbleService      // exporters of the unit's roles

	Remove    bool // the unit is being removed
	EndsTasks bool // see function EndsTasks
	// Refused has the reasons why nothing is done: the Python charm's service cannot be
	// taken over yet and keeps running.
	Refused []status.Cause
}

// And returns the desired state of a unit with both roles: the web's, followed by the
// worker's.
func (d Desired) And(worker Desired) Desired {
	d.Resources = slices.Concat(d.Resources, worker.Resources)
	d.Causes = slices.Concat(d.Causes, worker.Causes)
	d.Refused = slices.Concat(d.Refused, worker.Refused)
	d.Pebble = slices.Concat(d.Pebble, worker.Pebble)
	return d
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
	if f.Mode() == config.ModeWorker && len(f.Flights) == 0 {
		return true
	}
	return model.Leaving(event) || f.LeaderIsWeb() && event == "peers-relation-broken"
}

// Remediable marks errors that only the operator can fix. Remedy returns the cause with the
// fix.
type Remediable interface {
	error
	Remedy(wellknown.Commands) status.Cause
}

// Refusals returns the reasons why the Python charm's service cannot be taken over now. They
// are found before the first step. While there is a reason, nothing changes and the service
// keeps running. A stopped service is not a reason, and also not a service that the operator
// ended by removing a relation. able reports that the service will run again or must end.
// why has the obstacles.
func Refusals(o Observed, able bool, why []status.Cause) (causes []status.Cause) {
	for _, err := range o.Refused {
		if r, ok := errors.AsType[Remediable](err); ok {
			causes = append(causes, r.Remedy(o.Facts.Commands()))
		}
	}
	unit, what := concourse.Unit, "worker"
	if o.Half == model.WebRole {
		unit, what = concourse.WebUnit, "web"
	}
	running := o.TakesOver && o.Units[unit].Running()
	if running && !able && len(causes) == 0 {
		causes = append(causes, why...)
	}
	if running && len(causes) > 0 {
		causes = append(causes, status.Wait("the Python charm's %s runs on until then", what))
	}
	return causes
}

// Shared reports whether several units share the storage of releases.
func (o Observed) Shared() bool { return o.Config.SharedStorage != config.StorageNone }

// DesireRelease returns the release and its folders. before runs when another release is
// about to replace the current one. If the storage cannot be used, the run ends there, and
// the status shows the reason.
func DesireRelease(o Observed, before plan.Resource) Desired {
	d := Desired{Causes: slices.Concat(o.Remarks, status.Warnings(o.Config.Notes))}
	if o.Storage != nil {
		d.Resources = []plan.Resource{StepOf("use the shared storage", "shared-storage="+string(o.Config.SharedStorage),
			func(context.Context, host.Host) error { return o.Storage })}
		return d
	}
	d.Resources = append(release.Folders(o.Shared()), release.Install{Release: o.Release, Before: before})
	return d
}

// Observed holds the input of Desire in both roles. It is plain data: equal values give
// equal desired states.
type Observed struct {
	Event    string     // name of the hook
	Half     model.Role // the role to decide on: web or worker, also on a unit with both
	Facts    model.Facts
	Config   config.Config
	Machine  machine.Machine
	Arch     string // amd64, arm64
	CharmDir string // folder of the charm's files, as this process opens it
	Now      time.Time

	Trust   Trust
	Install amd.InstallState
	Kernel  string // uname -r

	// Release is the wanted release. ReleaseID identifies it after its installation.
	Release   release.Release
	ReleaseID string
	// Storage has the reason why shared storage cannot be used. It is nil if it can, or if
	// shared storage is not used.
	Storage error
	// Remarks are about the release, for example that a version failed to start here.
	Remarks  []status.Cause
	WorkerID string // id in the work folder, or a new one
	KeptName string // name of a worker that the Python charm registered, or ""
	// TakesOver reports that the Python charm set up this unit's service. Refused has its
	// invalid keys.
	TakesOver bool
	Refused   []error
	// Predecessor removes the files of the Python charm. It comes after the unit's service is
	// set up, and before an exporter, because the Python charm's exporter has its port.
	Predecessor []plan.Resource
	Units       map[string]resource.UnitState
	Programs    []byte // changes if the charm's programs change
}

// WebHas reports whether the web of the same unit has the parts that both roles share: the
// release, the charm's programs, the authorities and the takeover.
func (o Observed) WebHas() bool { return o.Half == model.WorkerRole && o.Facts.Role == model.AllRole }
