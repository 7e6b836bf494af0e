// Package role has the common parts of both roles: their observed and desired state, the
// release, Pebble and the charm's programs. Packages worker and web decide on top of it. It
// never changes the machine: package charm applies the resources.
package role

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

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
