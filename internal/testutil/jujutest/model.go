// Package jujutest simulates Juju for tests and the demo: one unit's view of a model, in
// memory, with the hook tools that read and change it. A hook is a transaction, as in Juju.
// Relation data, state, ports and secrets are kept if it succeeds and dropped if it fails.
// Status, log and version appear at once. The tools answer like those of Juju 3.6.11, in
// the same process or as real commands behind a unix socket.
//
// It never runs hooks, decides their order or restricts other units. A test sets fields for
// the rest of the model. It does not support storage, payloads, leader settings, -o of the
// reading tools, the access list of secret-info-get, network-get of undeclared endpoints,
// or YAML output deeper than one level.
package jujutest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

// Model has the unit's view. Tests use its fields before a hook begins and after it ended.
// The methods of Context are safe for concurrent use.
type Model struct {
	mu sync.Mutex

	Unit, ModelName, ModelUUID string
	MachineID, Zone            string
	JujuVersion, CharmDir      string
	Address                    string // of every binding; "" means no network
	Proxy                      juju.Proxy

	Leader    bool
	Options   map[string]Option
	Config    map[string]any    // set options and defaults; nil is an option without a value
	Resources map[string]string // attached resources: name to path
	Networks  map[string]juju.Network
	Actions   []*Action

	// Shown at once, whatever the hook's result.
	Statuses    []StatusLine // oldest first
	AppStatuses []StatusLine
	Logs        []LogLine
	Version     string

	Book
	hooks, secrets int
}

// Book has the data that a hook changes completely or not at all.
type Book struct {
	Relations []*Relation
	Ports     []OpenPort
	Secrets   []*Secret // in the order of their creation
	State     map[string]string
	Reboot    string // the last hook's request: "", "after" or "now"
}

// StatusLine records one status-set.
type StatusLine struct {
	Status  string
	Message string
}

// LogLine records one juju-log. Juju puts the relation's id before the message.
type LogLine struct {
	Level   string // TRACE, DEBUG, INFO, WARNING, ERROR, CRITICAL
	Message string
}

// Relation describes one relation of the unit. It is a peer relation if RemoteApp is the
// unit's own application. Then all units share LocalApp as application bag.
type Relation struct {
	ID        int
	Endpoint  string
	RemoteApp string
	Local     map[string]string            // this unit's bag
	LocalApp  map[string]string            // this application's bag
	Units     map[string]map[string]string // bags of the remote units
	AppData   map[string]string            // bag of the remote application
	// Forced reports that the relation was removed with --force. Juju still lists it and its
	// units until the unit's agent restarts, and refuses all bags.
	Forced bool
}

// Name returns the relation's name in the tools: "flight:7".
func (r *Relation) Name() string { return fmt.Sprintf("%s:%d", r.Endpoint, r.ID) }

// Action records one run of an action.
type Action struct {
	ID, Name string
	Params   map[string]any
	Results  map[string]any // nested, with strings as leaves
	Log      []string
	Status   string // running, completed or failed
	Message  string
}

// New returns a model with one unit, which is the leader.
func New(unit string) *Model {
	return &Model{
		Unit: unit, ModelName: "test", ModelUUID: "f47ac10b-58cc-4372-a567-0e02b2c3d479",
		MachineID: "0", JujuVersion: "3.6.11", Address: "10.0.0.5", Leader: true,
		Proxy:    juju.Proxy{NoProxy: "127.0.0.1,localhost,::1"}, // Juju's default
		CharmDir: "/var/lib/juju/agents/unit-" + strings.ReplaceAll(unit, "/", "-") + "/charm",
		Options:  map[string]Option{}, Config: map[string]any{}, Resources: map[string]string{},
		Networks: map[string]juju.Network{}, Book: Book{State: map[string]string{}},
	}
}

// App returns the unit's application.
func (m *Model) App() string { return juju.AppOf(m.Unit) }

// Relate adds a relation without units. Both sides have Juju's initial bag.
func (m *Model) Relate(id int, endpoint, remoteApp string) *Relation {
	r := &Relation{
		ID: id, Endpoint: endpoint, RemoteApp: remoteApp,
		Local: m.addresses(), LocalApp: map[string]string{},
		Units: map[string]map[string]string{}, AppData: map[string]string{},
	}
	m.Relations = append(m.Relations, r)
	return r
}

func (m *Model) addresses() map[string]string {
	return map[string]string{
		"egress-subnets": m.Address + "/32", "ingress-address": m.Address, "private-address": m.Address,
	}
}

// Status returns the last status, or the zero value before the first.
func (m *Model) Status() StatusLine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status()
}

func (m *Model) status() StatusLine {
	if len(m.Statuses) == 0 {
		return StatusLine{}
	}
	return m.Statuses[len(m.Statuses)-1]
}

func (b *Book) relation(id int) *Relation {
	i := slices.IndexFunc(b.Relations, func(r *Relation) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return b.Relations[i]
}

func (b *Book) secret(id string) *Secret {
	i := slices.IndexFunc(b.Secrets, func(s *Secret) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return b.Secrets[i]
}

// clone copies deeply what a hook can write.
func (b *Book) clone() Book {
	c := Book{Ports: slices.Clone(b.Ports), State: maps.Clone(b.State)}
	if c.State == nil {
		c.State = map[string]string{}
	}
	for _, r := range b.Relations {
		n := *r
		n.Local, n.LocalApp = maps.Clone(r.Local), maps.Clone(r.LocalApp)
		c.Relations = append(c.Relations, &n)
	}
	for _, s := range b.Secrets {
		n := *s
		n.Revisions, n.Grants = slices.Clone(s.Revisions), slices.Clone(s.Grants)
		c.Secrets = append(c.Secrets, &n)
	}
	return c
}
