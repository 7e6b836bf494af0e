package role

import (
	"slices"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/postgres"
	"concourse-ci-machine/internal/relation"
	"concourse-ci-machine/internal/release"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/internal/status"
)

// Desired is what the machine and the relations should be.
type Desired struct {
	Resources []plan.Resource
	Causes    []status.Cause // why the unit is not ready, as far as it can be known before applying
	Suffix    string         // of the status text when nothing is in the way: " (GPU: 1x AMD)"

	Remove bool // the unit is going away
	// Refused is why nothing at all is done: the Python charm's service can't be
	// taken over yet, and runs on.
	Refused []status.Cause

	Worker      bool   // the worker should be running after applying
	Web         bool   // the web should be running after applying
	WebURL      string // where people find it
	LocalURL    string // where this machine does
	Shared      bool   // the release lies on shared storage
	Release     *release.Release
	Secret      map[string]string // what the application's secret should hold, nil where this unit has no say
	Request     string            // for a certificate, PEM
	Ports       []juju.Port
	TSA         concourse.TSA         // where the worker registers
	Database    concourse.WebDatabase // of a web that is to be running, as Concourse takes it
	Repair      postgres.Config       // the same, for the charm's own connections
	Environment map[string]string     // of that web
	LogLevel    string
	// Invocation is systemd's id of the worker's process as it was observed.
	Invocation string
	GPUs       relation.WorkerGPUs // of a worker, as the web is told
	Known      KnownGPUs           // to be remembered
	Asked      string              // release that was asked for its limit
	Exporter   bool                // rocm-exporter should be running after applying
	Jobs       bool                // concourse-exporter should be, and Concourse's own metrics
	Toolkit    bool                // the toolkit is wanted; a failed attempt belongs into the status
	NVIDIA     bool                // the same for NVIDIA's
	Describes  bool                // applying can give tasks NVIDIA GPUs that they have not now
	Driver     *Driver
}

// Driver is what was decided on the driver of AMD GPUs, and from what.
type Driver struct {
	Decision rocm.Decision
	Facts    rocm.DriverFacts
	Wanted   rocm.Wanted
	Computes bool // tasks get GPUs all the same
}

// MainUnit is what the unit is there for.
func (d Desired) MainUnit() string {
	switch {
	case d.Web:
		return concourse.WebUnit
	case d.Worker:
		return concourse.Unit
	}
	return ""
}

// OperatorsTurn reports whether something keeps the unit from its work that no
// step of the charm's can mend.
func (d Desired) OperatorsTurn() bool {
	return d.Driver != nil && len(d.Driver.Decision.Remedies) > 0 ||
		slices.ContainsFunc(d.Causes, func(c status.Cause) bool { return c.Kind == status.Blocked })
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
