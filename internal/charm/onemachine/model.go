// Package onemachine runs the charm on a machine without Juju. Files take the place of the
// model: the operator's options in a YAML file, and a state file with what Juju would keep.
// Every command runs the same pipeline as a hook. The package also installs what relations
// provide with Juju: the database, and the keys of joined machines.
package onemachine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
)

// Identifiers of relations, as Juju would number them.
const (
	peersID    = "peers:0"
	databaseID = "postgresql:1"
	workersID  = "tsa:2"
	webID      = "flight:3"

	webUnit = "web/0"
)

// Model implements juju.Model with the machine's files. Save writes the state.
type Model struct {
	Host     host.Host
	Progress Progress
	Verbose  bool // also show the plan of each run
	Action   map[string]any
	Results  map[string]any // of the action
	Failure  string         // of the action
	Release  string         // path of a release's tarball, or ""

	options map[string]any
	state   state
}

var _ juju.Model = (*Model)(nil)

// Config returns the options of the file, without those that only one machine has.
func (m *Model) Config(context.Context) (map[string]any, error) {
	set := maps.Clone(m.options)
	delete(set, databaseOption)
	return set, nil
}

// IsLeader returns true: the machine is the only unit of its application.
func (m *Model) IsLeader(context.Context) (bool, error) { return true, nil }

// ResourceGet returns the path of the release that the operator named, now or before.
func (m *Model) ResourceGet(_ context.Context, name string) (string, error) {
	if m.Release != "" {
		return m.Release, nil
	}
	if last, err := model.Load(m.Host.Root); err == nil && last.Resource != "" {
		return last.Resource, nil
	}
	return "", &juju.ResourceError{Name: name, Err: errors.New("no release was given")}
}

// NetworkGet returns the address of the machine in its network.
func (m *Model) NetworkGet(context.Context, string) (juju.Network, error) {
	return juju.Network{IngressAddresses: []string{m.address()}}, nil
}

// address returns the source address of packets to the internet, or that of another
// interface, or that of the loopback interface. No packet is sent.
func (m *Model) address() string {
	for _, to := range []string{"udp4 192.0.2.1:9", "udp6 [2001:db8::1]:9"} {
		network, remote, _ := strings.Cut(to, " ")
		if c, err := net.Dial(network, remote); err == nil {
			defer c.Close()
			return c.LocalAddr().(*net.UDPAddr).IP.String()
		}
	}
	all, _ := net.InterfaceAddrs() // without interfaces only the loopback interface is left
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// RelationIDs returns the relation of an endpoint, if the machine has it.
func (m *Model) RelationIDs(_ context.Context, endpoint string) ([]string, error) {
	has := map[string]bool{peersID: true, databaseID: m.database() != nil, workersID: len(m.state.Workers) > 0,
		webID: m.state.Web != nil}
	for id, ok := range has {
		if name, _, _ := strings.Cut(id, ":"); ok && name == endpoint {
			return []string{id}, nil
		}
	}
	return nil, nil
}

// RelationUnits returns the joined machines, or the joined web.
func (m *Model) RelationUnits(_ context.Context, id string) ([]string, error) {
	switch id {
	case workersID:
		return slices.Sorted(maps.Keys(m.state.Workers)), nil
	case webID:
		return []string{webUnit}, nil
	}
	return nil, nil
}

// RelationRemoteApp returns the application of the relation's units.
func (m *Model) RelationRemoteApp(_ context.Context, id string) (string, error) {
	name, _, _ := strings.Cut(id, ":")
	return name, nil
}

// RelationGet returns the databag of a unit. Its own is empty at first.
func (m *Model) RelationGet(_ context.Context, id, unit string) (map[string]string, error) {
	switch {
	case unit == m.state.Unit:
		return maps.Clone(m.state.Own[id]), nil
	case id == workersID:
		return maps.Clone(m.state.Workers[unit]), nil
	case id == webID && unit == webUnit:
		return maps.Clone(m.state.Web), nil
	}
	return nil, nil
}

// RelationGetApp returns the databag of an application.
func (m *Model) RelationGetApp(_ context.Context, id, app string) (map[string]string, error) {
	if id == databaseID && app != juju.AppOf(m.state.Unit) {
		return m.database(), nil
	}
	return maps.Clone(m.state.App[id]), nil
}

// RelationSet changes the machine's own databag.
func (m *Model) RelationSet(_ context.Context, id string, kv map[string]string) error {
	m.state.Own = merged(m.state.Own, id, kv)
	return nil
}

// RelationSetApp changes the databag of the machine's application.
func (m *Model) RelationSetApp(_ context.Context, id string, kv map[string]string) error {
	m.state.App = merged(m.state.App, id, kv)
	return nil
}

// merged returns the databags with changed keys in one. An empty value removes its key.
func merged(bags map[string]map[string]string, id string, kv map[string]string) map[string]map[string]string {
	bags = maps.Clone(bags)
	if bags == nil {
		bags = map[string]map[string]string{}
	}
	bag := maps.Clone(bags[id])
	if bag == nil {
		bag = map[string]string{}
	}
	maps.Copy(bag, kv)
	maps.DeleteFunc(bag, func(_, v string) bool { return v == "" })
	bags[id] = bag
	return bags
}

// SecretGet returns a secret of the state.
func (m *Model) SecretGet(_ context.Context, id string) (map[string]string, error) {
	s, ok := m.state.Secrets[id]
	if !ok {
		return nil, &juju.ToolError{Tool: "secret-get", Code: 1,
			Text: fmt.Sprintf("secret %q not found", id)}
	}
	return maps.Clone(s), nil
}

// SecretRefresh returns a secret like SecretGet. A secret of the state has one revision.
func (m *Model) SecretRefresh(ctx context.Context, id string) (map[string]string, error) {
	return m.SecretGet(ctx, id)
}

// SecretPeek returns a secret like SecretGet.
func (m *Model) SecretPeek(ctx context.Context, id string) (map[string]string, error) {
	return m.SecretGet(ctx, id)
}

// SecretAdd stores a secret under its label.
func (m *Model) SecretAdd(ctx context.Context, s juju.Secret) (string, error) {
	id := "secret:" + s.Label
	return id, m.SecretSet(ctx, id, s)
}

// SecretSet replaces the content of a secret, and saves it at once, because a web may use
// the new keys before the run ends.
func (m *Model) SecretSet(_ context.Context, id string, s juju.Secret) error {
	if m.state.Secrets == nil {
		m.state.Secrets = map[string]map[string]string{}
	}
	m.state.Secrets[id] = maps.Clone(s.Content)
	return m.Save()
}

// OpenPort does nothing: the machine's firewall belongs to its operator.
func (m *Model) OpenPort(context.Context, juju.Port) error { return nil }

// ClosePort does nothing, like OpenPort.
func (m *Model) ClosePort(context.Context, juju.Port) error { return nil }

// OpenedPorts returns no port, see OpenPort.
func (m *Model) OpenedPorts(context.Context) ([]juju.Port, error) { return nil, nil }

// StatusSet shows progress, and records any other status.
func (m *Model) StatusSet(_ context.Context, s juju.Status, message string) error {
	if s == juju.Maintenance {
		m.Progress.Step(message)
	}
	m.state.Status, m.state.Message = s, message
	if !m.Installed() { // plan
		return nil
	}
	return m.Save()
}

// ApplicationVersionSet does nothing: the release's file has the version.
func (m *Model) ApplicationVersionSet(context.Context, string) error { return nil }

// Log shows warnings and errors, and with Verbose also plans.
func (m *Model) Log(_ context.Context, level juju.Level, message string) error {
	if m.Verbose || level == juju.Warning || level == juju.Error {
		m.Progress.Note(message)
	}
	return nil
}

// Reboot reports that the machine needs a reboot. It never reboots a machine on which
// somebody works.
func (m *Model) Reboot(context.Context) error {
	m.Progress.Note("reboot this machine to continue: sudo reboot")
	return nil
}

// ActionGet returns the parameters of the command.
func (m *Model) ActionGet(context.Context) (map[string]any, error) { return m.Action, nil }

// ActionSet keeps the results of the action for the command.
func (m *Model) ActionSet(_ context.Context, results map[string]any) error {
	m.Results = results
	return nil
}

// ActionFail keeps the failure of the action for the command.
func (m *Model) ActionFail(_ context.Context, message string) error {
	m.Failure = message
	return nil
}

// ActionLog shows the progress of the action.
func (m *Model) ActionLog(_ context.Context, message string) error {
	m.Progress.Step(message)
	return nil
}

// unitName returns the name of the machine's unit: its host name with the characters that
// Juju allows in a name, and 0.
func unitName(host string) string {
	name, _, _ := strings.Cut(strings.ToLower(host), ".")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	if name = strings.Trim(name, "-"); name == "" {
		name = "machine"
	}
	return name + "/0"
}
