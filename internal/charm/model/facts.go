// Package model reads the unit's part of the Juju model with hook tools. Each hook saves it
// in a file, because people who run a command have no hook tools. The package decides only
// the role of the unit.
package model

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

// FactsFile has the Facts of the last hook. Only root can read it.
const FactsFile = wellknown.StateDir + "/juju.json"

// MachineFile has the state of a machine without Juju. It outlives the hook remove, because a
// purge ends later.
const MachineFile = wellknown.StateDir + "/machine.json"

// Facts holds the unit's part of the Juju model.
type Facts struct {
	Program  wellknown.Program `json:"-"`
	Unit     string            `json:"unit"`
	Config   map[string]any    `json:"config"`            // output of config-get
	Secrets  config.Secrets    `json:"secrets,omitempty"` // secrets that options name
	Tracked  []string          `json:"tracked,omitempty"` // ids of the secrets that this unit has read
	Leader   bool              `json:"leader,omitempty"`  // unknown with mode=worker
	Removed  bool              `json:"removed,omitempty"` // the unit or its application is being removed
	Role     Role              `json:"role"`
	KeptMode config.Mode       `json:"kept_mode,omitempty"` // last valid mode, while the option is invalid
	Flights  []Relation        `json:"flights"`
	Peer     *Relation         `json:"peer,omitempty"`  // nil with mode=worker, or before it exists
	TSAs     []Relation        `json:"tsas,omitempty"`  // with mode=worker only after hooks that resync
	Route    *Route            `json:"route,omitempty"` // read together with TSAs
	Web      *Web              `json:"web,omitempty"`   // of a web only
	// Address is this worker's address as last published to a web. It is kept after the relation ends.
	Address  string     `json:"address,omitempty"`
	Resource string     `json:"resource"`       // path of the attached release, or ""
	Proxy    juju.Proxy `json:"proxy"`          // of the model
	Juju     string     `json:"juju,omitempty"` // version of the unit's agent
	Watchers Watchers   `json:"watchers,omitzero"`

	FleetRoute  *Route      `json:"fleet_route,omitempty"` // read together with TSAs
	Authorities Authorities `json:"authorities,omitzero"`

	// Forced has the relations that were removed with --force and that Juju still lists.
	Forced []string `json:"forced,omitempty"`

	Model     string `json:"model"` // name
	ModelUUID string `json:"model_uuid"`
}

// Commands returns the commands that texts name to users of the unit.
func (f Facts) Commands() wellknown.Commands {
	return wellknown.Commands{Program: f.Program, Unit: f.Unit}
}

// Observe reads the Facts with hook tools. The attached release is read only if it can have
// changed (Juju runs upgrade-charm after attach-resource), or if no release is installed.
// Juju does not report whether none was attached or its download failed.
func Observe(ctx context.Context, t juju.Model, e juju.Event, last Facts, installed bool,
	now time.Time) (Facts, error) {
	f := Facts{Unit: e.Unit, Model: e.ModelName, ModelUUID: e.ModelUUID, Proxy: e.Proxy, Juju: e.JujuVersion,
		Resource: last.Resource}
	// If the unit is being removed, Juju sets it as the departing unit, in one hook only. A
	// removal cannot be undone.
	f.Removed = last.Removed || e.DepartingUnit != "" && e.DepartingUnit == e.Unit
	var err error
	if f.Config, err = t.Config(ctx); err != nil {
		return f, jujuerrors.Annotate(err, "cannot observe the configuration")
	}
	f.keepMode(last)
	o := observer{t: t, e: e, last: last, now: now}
	if f.Secrets, err = o.options(ctx, f.Config); err != nil {
		return f, err
	}
	if err := o.role(ctx, &f); err != nil {
		return f, err
	}
	f.Tracked = o.tracked
	if f.Flights, err = o.flights(ctx); err != nil {
		return f, err
	}
	f.Address = cmp.Or(f.ownAddress(), last.Address)
	if f.Watchers, err = o.watchers(ctx); err != nil {
		return f, jujuerrors.Annotate(err, "cannot observe who watches the unit")
	}
	if f.Authorities, err = o.authorities(ctx); err != nil {
		return f, jujuerrors.Annotate(err, "cannot observe whom to trust")
	}
	f.Forced = o.forced
	if !Leaving(e.Name) && (e.Name == "upgrade-charm" || last.Unit == "" || !installed) {
		f.Resource, err = t.ResourceGet(ctx, "concourse-release")
		var none *juju.ResourceError
		if err != nil && !errors.As(err, &none) {
			return f, jujuerrors.Annotate(err, "cannot observe the resource concourse-release")
		}
	}
	return f, nil
}

// ErrDamaged reports a facts file that cannot be read. The next hook reads everything again
// from Juju. Only workers that left in the meantime are lost.
var ErrDamaged = errors.New("the file is damaged; the next hook writes it again")

var factsFile = statefile.File[Facts]{Path: FactsFile, Mode: 0o600}

// Load reads FactsFile. It returns the zero Facts if no hook has run yet.
func Load(r host.Root) (Facts, error) {
	f, err := factsFile.Read(r)
	if errors.Is(err, statefile.ErrDamaged) {
		err = jujuerrors.Annotatef(ErrDamaged, "cannot read %s", FactsFile)
	}
	return f, jujuerrors.Trace(err)
}

// LoadFor reads FactsFile for a command of a person, who may not be root. action names the
// command.
func LoadFor(r host.Root, action string) (Facts, error) {
	f, err := Load(r)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("cannot %s: %s is readable by root only; run it with sudo", action, FactsFile)
	}
	return f, err
}

// Save writes FactsFile if it changed. Most hooks change nothing.
func Save(r host.Root, last, now Facts) error {
	a, err := factsFile.Encode(last)
	if err != nil {
		return err
	}
	b, err := factsFile.Encode(now)
	if err != nil || bytes.Equal(a, b) {
		return err
	}
	return factsFile.Write(r, now)
}

// Leaving reports whether the hook removes the unit.
func Leaving(event string) bool { return event == "stop" || event == "remove" }
