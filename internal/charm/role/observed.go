// Package role is what units of both roles have in common: what is observed of each,
// the form of what is desired, the release, Pebble and the charm's own programs.
// Packages worker and web decide on top of it, and package charm does what they say.
package role

import (
	"time"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/machine"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu/amd"
)

// Observed is what Desire of either role decides on. It is data: two equal ones
// give equal desires.
type Observed struct {
	Event    string // the hook's name
	Facts    model.Facts
	Config   config.Config
	Machine  machine.Machine
	Arch     string // amd64, arm64
	CharmDir string // where the charm's own files are, as this process opens them
	Now      time.Time

	Trust   Trust
	Install amd.InstallState
	Kernel  string // uname -r

	// Release is the one that is wanted, ReleaseID its identity once installed.
	Release   release.Release
	ReleaseID string
	// Storage is why the shared storage can't be used; nil where it can, or
	// where there is none.
	Storage error
	// Remarks are about the release: what auto-upgrade leaves to the operator, or
	// that a version was given up here.
	Remarks  []string
	WorkerID string // of the work folder; a fresh one where it has none
	KeptName string // of a worker that the Python charm registered; "" for others
	// TakesOver says that this unit's service is as the Python charm set it up;
	// Refused are keys that it has and that are of no use.
	TakesOver bool
	Refused   []error
	// Predecessor takes away what the Python charm left.
	Predecessor []plan.Resource
	Units       map[string]resource.UnitState
	Programs    []byte // tells whether the charm's own programs changed
}
