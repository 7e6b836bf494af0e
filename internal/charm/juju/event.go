package juju

import (
	"cmp"
	"errors"
	"path"
	"strings"
)

// ErrNotJuju reports that a person, and not Juju, started the program: the environment has
// no event.
var ErrNotJuju = errors.New("cannot find an event: not run by Juju (JUJU_DISPATCH_PATH and JUJU_HOOK_NAME are not set)")

// Event holds the reason why Juju runs the charm, and the unit.
type Event struct {
	// Name is the hook's name (config-changed, flight-relation-joined). For an
	// action it is "<action>-action", so that no hook can have the same name.
	Name string

	Relation      *RelationRef // relation of the hook, nil in other hooks
	RemoteUnit    string       // empty in relation-created and relation-broken
	RemoteApp     string
	DepartingUnit string // relation-departed only; may be this unit

	Action *ActionRef

	SecretID    string // "secret:...", in Juju's form
	SecretLabel string

	Unit        string // "concourse-ci/0"
	ModelName   string
	ModelUUID   string
	MachineID   string // "3", or "3/lxd/1"
	JujuVersion string
	CharmDir    string
	Proxy       Proxy // model-config juju-http-proxy and others
}

// RelationRef names one relation of this unit.
type RelationRef struct {
	Endpoint string
	ID       string // "flight:7"
}

// ActionRef names one run of an action.
type ActionRef struct {
	Name string
	UUID string // since Juju 3 a small number, unique in the model
}

// Proxy holds the model's proxies, "" if unset.
type Proxy struct{ HTTP, HTTPS, NoProxy string }

// App returns the application of the unit.
func (e Event) App() string { return AppOf(e.Unit) }

// AppOf returns the application of a unit: "db" for "db/0".
func AppOf(unit string) string {
	app, _, _ := strings.Cut(unit, "/")
	return app
}

// ParseEvent reads the environment of a hook or an action (Juju 3.6, HookContext.HookVars).
// An unknown hook is an event like any other. It returns ErrNotJuju if the caller is not
// Juju.
func ParseEvent(env func(string) string) (Event, error) {
	e := Event{
		RemoteUnit:    env("JUJU_REMOTE_UNIT"),
		RemoteApp:     env("JUJU_REMOTE_APP"),
		DepartingUnit: env("JUJU_DEPARTING_UNIT"),
		SecretID:      strings.TrimSpace(env("JUJU_SECRET_ID")),
		SecretLabel:   env("JUJU_SECRET_LABEL"),
		Unit:          env("JUJU_UNIT_NAME"),
		ModelName:     env("JUJU_MODEL_NAME"),
		ModelUUID:     env("JUJU_MODEL_UUID"),
		MachineID:     env("JUJU_MACHINE_ID"),
		JujuVersion:   env("JUJU_VERSION"),
		CharmDir:      env("JUJU_CHARM_DIR"),
		Proxy: Proxy{
			HTTP:    env("JUJU_CHARM_HTTP_PROXY"),
			HTTPS:   env("JUJU_CHARM_HTTPS_PROXY"),
			NoProxy: env("JUJU_CHARM_NO_PROXY"),
		},
	}
	if e.CharmDir == "" {
		e.CharmDir = env("CHARM_DIR")
	}
	if id := env("JUJU_RELATION_ID"); id != "" {
		e.Relation = &RelationRef{Endpoint: env("JUJU_RELATION"), ID: id}
		if e.Relation.Endpoint == "" {
			e.Relation.Endpoint, _, _ = strings.Cut(id, ":")
		}
	}
	kind, name := path.Split(env("JUJU_DISPATCH_PATH"))
	action := env("JUJU_ACTION_NAME")
	switch {
	case action != "" || path.Clean(kind) == "actions":
		action = cmp.Or(action, name)
		e.Action = &ActionRef{Name: action, UUID: env("JUJU_ACTION_UUID")}
		e.Name = action + "-action"
	case name != "":
		e.Name = name
	case env("JUJU_HOOK_NAME") != "":
		e.Name = env("JUJU_HOOK_NAME")
	default:
		return Event{}, ErrNotJuju
	}
	return e, nil
}
