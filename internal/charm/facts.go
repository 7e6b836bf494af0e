package charm

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/agreed"
	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/plan"
)

// StateDir holds what the charm itself has to remember. It is 0700.
const StateDir = agreed.StateDir

const factsFile = StateDir + "/juju.json"

// Facts is what Juju says of the unit. The last hook's facts are kept in a
// root-only file, so that `dispatch plan` can be asked by a person, who has no
// hook tools.
type Facts struct {
	Unit     string         `json:"unit"`
	Config   map[string]any `json:"config"`            // as config-get gives it
	Secrets  config.Secrets `json:"secrets,omitempty"` // what options that name a secret stand for
	Tracked  []string       `json:"tracked,omitempty"` // ids of the secrets that this unit has read
	Leader   bool           `json:"leader,omitempty"`  // not asked where mode=worker
	Role     Role           `json:"role"`
	Flights  []Flight       `json:"flights"`
	Peer     *Link          `json:"peer,omitempty"` // nil where mode=worker, or before there is one
	TSAs     []TSARelation  `json:"tsas,omitempty"` // not asked where mode=worker, but when Juju is asked for all
	Web      *WebFacts      `json:"web,omitempty"`  // of a web only
	Resource string         `json:"resource"`       // path of the attached release, "" when none is
	Proxy    juju.Proxy     `json:"proxy"`          // the model's
	Juju     string         `json:"juju,omitempty"` // version of the unit's agent
}

// Flight is one relation to a web's tsa endpoint.
type Flight struct {
	ID    string                       `json:"id"`    // "flight:7"
	Own   map[string]string            `json:"own"`   // this unit's bag
	Units map[string]map[string]string `json:"units"` // the remote units' bags
}

// observeJuju asks the hook tools. The attached release is asked for only
// where it can have changed, as Juju runs upgrade-charm after attach-resource,
// and as long as no release is installed: Juju does not say whether none was
// attached or its own download failed.
func observeJuju(ctx context.Context, t *juju.Tools, e juju.Event, last Facts, installed bool) (Facts, error) {
	f := Facts{Unit: e.Unit, Proxy: e.Proxy, Juju: e.JujuVersion, Resource: last.Resource}
	var err error
	if f.Config, err = t.Config(ctx); err != nil {
		return f, jujuerrors.Annotate(err, "cannot observe the configuration")
	}
	o := observer{t: t, e: e, last: last}
	if f.Secrets, err = o.options(ctx, f.Config); err != nil {
		return f, err
	}
	if err := o.role(ctx, &f); err != nil {
		return f, err
	}
	f.Tracked = o.tracked
	ids, err := t.RelationIDs(ctx, "flight")
	if err != nil {
		return f, jujuerrors.Annotate(err, "cannot observe the flight relation")
	}
	for _, id := range ids {
		if e.Name == "flight-relation-broken" && e.Relation != nil && e.Relation.ID == id {
			continue
		}
		fl, err := observeFlight(ctx, t, e, id)
		if err != nil {
			return f, jujuerrors.Annotatef(err, "cannot observe relation %s", id)
		}
		f.Flights = append(f.Flights, fl)
	}
	if !leaving(e.Name) && (e.Name == "upgrade-charm" || last.Unit == "" || !installed) {
		f.Resource, err = t.ResourceGet(ctx, "concourse-release")
		var none *juju.ResourceError
		if err != nil && !errors.As(err, &none) {
			return f, jujuerrors.Annotate(err, "cannot observe the resource concourse-release")
		}
	}
	return f, nil
}

func observeFlight(ctx context.Context, t *juju.Tools, e juju.Event, id string) (Flight, error) {
	f := Flight{ID: id, Units: map[string]map[string]string{}}
	units, err := t.RelationUnits(ctx, id)
	if err != nil {
		return f, err
	}
	for _, u := range units {
		if e.Name == "flight-relation-departed" && u == e.DepartingUnit {
			continue
		}
		if f.Units[u], err = t.RelationGet(ctx, id, u); err != nil {
			return f, err
		}
	}
	f.Own, err = t.RelationGet(ctx, id, e.Unit)
	return f, err
}

// errDamaged is a facts file that can't be read back. A hook asks Juju for all
// of it anew; only what left while nobody looked is not known any more.
var errDamaged = errors.New("the file is damaged; the next hook writes it anew")

// loadFacts returns the zero Facts where no hook has run yet.
func loadFacts(r host.Root) (Facts, error) {
	var f Facts
	data, err := r.ReadFile(factsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil && json.Unmarshal(data, &f) != nil {
		f, err = Facts{}, errDamaged
	}
	return f, jujuerrors.Annotatef(err, "cannot read %s", factsFile)
}

// saveFacts writes only what changed: most hooks change nothing.
func saveFacts(r host.Root, last, now Facts) error {
	a, err := json.Marshal(last)
	if err != nil {
		return err
	}
	b, err := json.Marshal(now)
	if err != nil || string(a) == string(b) {
		return err
	}
	if err := makeStateDir(r); err != nil {
		return err
	}
	return r.WriteFile(factsFile, append(b, '\n'), 0o600)
}

// forgetGone is called when those who left have been cut off. A web that could
// not be reloaded lets them in again: they are cut off once more after that. Where
// there is no web to be, its file of keys still has theirs.
func (c *Charm) forgetGone(f Facts, want Desired, notes []plan.Note) error {
	stale := slices.ContainsFunc(notes, func(n plan.Note) bool { return n.Step.Op == reloadWebOp })
	if f.Web == nil || len(f.Web.Gone) == 0 || !want.Web || stale {
		return nil
	}
	now := f
	web := *f.Web
	web.Gone = nil
	now.Web = &web
	return jujuerrors.Annotate(saveFacts(c.Host.Root, f, now), "cannot keep what Juju says")
}

func makeStateDir(r host.Root) error { return r.MkdirAll(StateDir, 0o700) }
