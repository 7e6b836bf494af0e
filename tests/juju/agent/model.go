package agent

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/juju/charm/v12"
	"github.com/juju/names/v5"

	"github.com/juju/juju/rpc/params"
)

// Model is what a controller knows of one model. Its methods are safe for
// concurrent use; the fields of what they return are for tests to read and to
// set between hooks.
type Model struct {
	mu        sync.Mutex
	uuid      string
	apps      map[string]*Application
	relations []*Relation
	secrets   []*Secret // in the order they were made
	actions   []*Action
}

// Application is one application: with a charm it has units that run hooks, without one it
// is for another program's, whose bags a test fills.
type Application struct {
	Name      string
	Leader    string            // unit; "" while none exists
	Resources map[string]string // attached resources: name to path
	Status    StatusLine

	charm  charm.Charm // nil for another program's
	config charm.Settings
	units  []*Unit
}

// StatusLine is one status-set.
type StatusLine struct{ Status, Message string }

// LogLine is one line of the unit's log: of juju-log, or what the charm printed.
type LogLine struct{ Module, Level, Message string }

// Action is one run of an action.
type Action struct {
	ID, Name, Status, Message string
	Params, Results           map[string]any
	Log                       []string
}

// NewModel returns an empty model.
func NewModel() *Model {
	return &Model{uuid: "f47ac10b-58cc-4372-a567-0e02b2c3d479", apps: map[string]*Application{}}
}

// Deploy adds an application of the unpacked charm in dir, without units; with dir "" it is
// another program's. Its options have their defaults.
func (m *Model) Deploy(name, dir string) (*Application, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	app := &Application{Name: name, Resources: map[string]string{}}
	if dir != "" {
		if err := app.refresh(dir); err != nil {
			return nil, err
		}
	}
	m.apps[name] = app
	return app, nil
}

// refresh makes the charm in dir the application's. Options keep what was set.
func (a *Application) refresh(dir string) error {
	ch, err := charm.ReadCharmDir(dir)
	if err != nil {
		return fmt.Errorf("cannot read the charm: %w", err)
	}
	settings := ch.Config().DefaultSettings()
	for name, value := range a.config {
		if _, known := ch.Config().Options[name]; known && value != nil {
			settings[name] = value
		}
	}
	a.charm, a.config = ch, settings
	return nil
}

// Configure is `juju config`: Juju refuses options that the charm does not have
// and values of another type. nil is a reset to the default.
func (m *Model) Configure(app string, set map[string]any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.apps[app]
	options := a.charm.Config()
	checked, err := options.ValidateSettings(set)
	if err != nil {
		return err
	}
	for name, value := range checked {
		if a.config[name] = value; value == nil {
			a.config[name] = options.DefaultSettings()[name]
		}
	}
	for _, u := range a.units {
		u.due.config = true
	}
	return nil
}

// Lead makes a unit the leader of its application.
func (m *Model) Lead(unit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	app := m.apps[appOf(unit)]
	app.Leader = unit
	for _, u := range app.units {
		u.due.elected = u.Name == unit
	}
}

func (m *Model) unit(name string) *Unit {
	app := m.apps[appOf(name)]
	if app == nil {
		return nil
	}
	if i := slices.IndexFunc(app.units, func(u *Unit) bool { return u.Name == name }); i >= 0 {
		return app.units[i]
	}
	return nil
}

func (m *Model) relation(id int) *Relation {
	if i := slices.IndexFunc(m.relations, func(r *Relation) bool { return r.ID == id }); i >= 0 {
		return m.relations[i]
	}
	return nil
}

// RelationOf is the relation of that number, nil when it has left.
func (m *Model) RelationOf(id int) *Relation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.relation(id)
}

func (m *Model) relationByTag(tag string) *Relation {
	if i := slices.IndexFunc(m.relations, func(r *Relation) bool { return r.tag() == tag }); i >= 0 {
		return m.relations[i]
	}
	return nil
}

func (m *Model) action(tag string) *Action {
	t, err := names.ParseActionTag(tag)
	if err != nil {
		return nil
	}
	if i := slices.IndexFunc(m.actions, func(a *Action) bool { return a.ID == t.Id() }); i >= 0 {
		return m.actions[i]
	}
	return nil
}

func appOf(unit string) string {
	app, _, _ := strings.Cut(unit, "/")
	return app
}

func unitTag(name string) string { return names.NewUnitTag(name).String() }
func appTag(name string) string  { return names.NewApplicationTag(name).String() }

// ranges lists a unit's open ports by endpoint, as the facade reports them.
func ranges(ports []params.EntityPortRange) (list []params.OpenUnitPortRangesByEndpoint) {
	for _, p := range ports {
		i := slices.IndexFunc(list, func(l params.OpenUnitPortRangesByEndpoint) bool { return l.Endpoint == p.Endpoint })
		if i < 0 {
			list = append(list, params.OpenUnitPortRangesByEndpoint{Endpoint: p.Endpoint})
			i = len(list) - 1
		}
		list[i].PortRanges = append(list[i].PortRanges, params.PortRange{FromPort: p.FromPort, ToPort: p.ToPort, Protocol: p.Protocol})
	}
	return list
}
