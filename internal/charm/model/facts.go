// Package model is what Juju says of a unit in one hook, read by the hook tools and
// kept in a file for people, who have no hook tools. It decides nothing but the
// role of the unit.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/juju"
)

// StateDir holds what the charm itself has to remember. It is 0700.
const StateDir = wellknown.StateDir

// FactsFile keeps the last hook's Facts; only root reads it.
const FactsFile = StateDir + "/juju.json"

// Facts is what Juju says of the unit. The last hook's facts are kept in a
// root-only file, so that `dispatch plan` can be asked by a person, who has no
// hook tools.
type Facts struct {
	Unit     string         `json:"unit"`
	Config   map[string]any `json:"config"`            // as config-get gives it
	Secrets  config.Secrets `json:"secrets,omitempty"` // what options that name a secret stand for
	Tracked  []string       `json:"tracked,omitempty"` // ids of the secrets that this unit has read
	Leader   bool           `json:"leader,omitempty"`  // not asked where mode=worker
	Removed  bool           `json:"removed,omitempty"` // the unit or its application is being removed
	Role     Role           `json:"role"`
	KeptMode string         `json:"kept_mode,omitempty"` // the last right one, while the option mode is wrong
	Flights  []Relation     `json:"flights"`
	Peer     *Relation      `json:"peer,omitempty"`  // nil where mode=worker, or before there is one
	TSAs     []Relation     `json:"tsas,omitempty"`  // not asked where mode=worker, but when Juju is asked for all
	Route    *Route         `json:"route,omitempty"` // asked for where TSAs are
	Web      *Web           `json:"web,omitempty"`   // of a web only
	Resource string         `json:"resource"`        // path of the attached release, "" when none is
	Proxy    juju.Proxy     `json:"proxy"`           // the model's
	Juju     string         `json:"juju,omitempty"`  // version of the unit's agent
	Watchers Watchers       `json:"watchers,omitzero"`

	Authorities Authorities `json:"authorities,omitzero"`

	Model     string `json:"model"` // the model's name
	ModelUUID string `json:"model_uuid"`
}

// Observe asks the hook tools. The attached release is asked for only
// where it can have changed, as Juju runs upgrade-charm after attach-resource,
// and as long as no release is installed: Juju does not say whether none was
// attached or its own download failed.
func Observe(ctx context.Context, t *juju.Tools, e juju.Event, last Facts, installed bool, now time.Time) (Facts, error) {
	f := Facts{Unit: e.Unit, Model: e.ModelName, ModelUUID: e.ModelUUID, Proxy: e.Proxy, Juju: e.JujuVersion, Resource: last.Resource}
	// Juju names the own unit as the one that departs when it is being removed, and only
	// in that hook. There is no way back from it.
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
	if f.Watchers, err = o.watchers(ctx); err != nil {
		return f, jujuerrors.Annotate(err, "cannot observe who watches the unit")
	}
	if f.Authorities, err = o.authorities(ctx); err != nil {
		return f, jujuerrors.Annotate(err, "cannot observe whom to trust")
	}
	if !Leaving(e.Name) && (e.Name == "upgrade-charm" || last.Unit == "" || !installed) {
		f.Resource, err = t.ResourceGet(ctx, "concourse-release")
		var none *juju.ResourceError
		if err != nil && !errors.As(err, &none) {
			return f, jujuerrors.Annotate(err, "cannot observe the resource concourse-release")
		}
	}
	return f, nil
}

// ErrDamaged is a facts file that can't be read back. A hook asks Juju for all
// of it anew; only what left while nobody looked is not known any more.
var ErrDamaged = errors.New("the file is damaged; the next hook writes it anew")

// Load returns the zero Facts where no hook has run yet.
func Load(r host.Root) (Facts, error) {
	var f Facts
	data, err := r.ReadFile(FactsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if errors.Is(err, host.ErrNotFile) || err == nil && json.Unmarshal(data, &f) != nil {
		f, err = Facts{}, ErrDamaged
	}
	return f, jujuerrors.Annotatef(err, "cannot read %s", FactsFile)
}

// LoadFor is Load for a person, who may not be root; action is what they asked for.
func LoadFor(r host.Root, action string) (Facts, error) {
	f, err := Load(r)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("cannot %s: %s is readable by root only; run it with sudo", action, FactsFile)
	}
	return f, err
}

// Save writes only what changed: most hooks change nothing.
func Save(r host.Root, last, now Facts) error {
	a, err := json.Marshal(last)
	if err != nil {
		return err
	}
	b, err := json.Marshal(now)
	if err != nil || string(a) == string(b) {
		return err
	}
	if err := MakeStateDir(r); err != nil {
		return err
	}
	return r.WriteFile(FactsFile, append(b, '\n'), 0o600)
}

// MakeStateDir makes StateDir where it is missing.
func MakeStateDir(r host.Root) error { return r.MkdirAll(StateDir, 0o700) }

// Leaving reports whether the unit is going away.
func Leaving(event string) bool { return event == "stop" || event == "remove" }
