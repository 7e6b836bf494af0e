package jujutest

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/juju"
)

// Context is one hook or action from its beginning to Commit or Rollback.
type Context struct {
	ID    string // JUJU_CONTEXT_ID
	Event juju.Event
	Calls [][]string // every hook tool that ran, as argv

	model   *Model
	book    Book // the model's, as this hook changed it
	action  *Action
	created map[string]bool // secrets that this hook made
	failing error           // what the controller will refuse at Commit
	done    bool
}

// Begin starts the hook or action of an event. Fields of the event that name
// the unit and the model are filled in from the model.
func (m *Model) Begin(e juju.Event) *Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks++
	e.Unit, e.ModelName, e.ModelUUID, e.MachineID = m.Unit, m.ModelName, m.ModelUUID, m.MachineID
	e.JujuVersion, e.CharmDir, e.Proxy = m.JujuVersion, m.CharmDir, m.Proxy
	name := e.Name
	c := &Context{Event: e, model: m, book: m.Book.clone(), created: map[string]bool{}}
	if e.Action != nil {
		name = e.Action.Name
		c.action = &Action{ID: fmt.Sprint(len(m.Actions) + 1), Name: name, Params: map[string]any{}, Results: map[string]any{}, Status: "running"}
		ref := *e.Action
		if ref.UUID == "" {
			ref.UUID = c.action.ID
		}
		c.action.ID, c.Event.Action = ref.UUID, &ref
		m.Actions = append(m.Actions, c.action)
	}
	c.ID = fmt.Sprintf("%s-%s-%032x", m.Unit, name, m.hooks)
	return c
}

// Hook is the event of a hook that belongs to no relation.
func Hook(name string) juju.Event { return juju.Event{Name: name} }

// RelationHook is the event of a relation hook: kind is created, joined,
// changed, departed or broken; remoteUnit is "" in created and broken.
func RelationHook(r *Relation, kind, remoteUnit string) juju.Event {
	e := juju.Event{
		Name:     r.Endpoint + "-relation-" + kind,
		Relation: &juju.RelationRef{Endpoint: r.Endpoint, ID: r.Name()}, RemoteUnit: remoteUnit, RemoteApp: r.RemoteApp,
	}
	if kind == "departed" {
		e.DepartingUnit = remoteUnit
	}
	return e
}

// BeginAction starts an action with parameters.
func (m *Model) BeginAction(name string, params map[string]any) *Context {
	c := m.Begin(juju.Event{Name: name + "-action", Action: &juju.ActionRef{Name: name}})
	maps.Copy(c.action.Params, params)
	return c
}

// Commit is the end of a hook that exited 0. The error is the controller's
// refusal of what the hook asked for; then nothing was changed, and Juju takes
// the hook as failed.
func (c *Context) Commit() error {
	m := c.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.done {
		return fmt.Errorf("cannot commit %s: it has ended", c.ID)
	}
	c.done = true
	err := c.failing
	for _, s := range c.book.Secrets {
		for _, other := range m.Secrets {
			if s.ID != other.ID && s.Label != "" && s.Label == other.Label && s.Owner == other.Owner && c.book.secret(other.ID) != nil {
				err = fmt.Errorf("secret with label %q already exists", s.Label)
			}
		}
	}
	if c.action != nil && c.action.Status == "running" {
		c.action.Status = "completed"
	}
	if err != nil {
		return err
	}
	for _, r := range c.book.Relations {
		if to := m.relation(r.ID); to != nil { // its remote side may have changed meanwhile
			to.Local, to.LocalApp = r.Local, r.LocalApp
		}
	}
	m.Ports, m.Secrets, m.State, m.Reboot = c.book.Ports, c.book.Secrets, c.book.State, c.book.Reboot
	return nil
}

// Rollback is the end of a hook or action that failed.
func (c *Context) Rollback() {
	c.model.mu.Lock()
	defer c.model.mu.Unlock()
	c.done = true
	if c.action != nil {
		c.action.Status = "failed"
	}
}

// Run runs one hook tool, argv[0] being its name, as the agent does for a hook.
func (c *Context) Run(argv []string, stdin []byte) (stdout, stderr string, code int) {
	c.model.mu.Lock()
	defer c.model.mu.Unlock()
	name := filepath.Base(argv[0])
	t, ok := tools[name]
	switch {
	case !ok:
		return "", fmt.Sprintf("ERROR bad request: unknown command: %s\n", name), 1
	case c.done:
		return "", fmt.Sprintf("ERROR bad request: wrong context ID; got %q\n", c.ID), 1
	}
	c.Calls = append(c.Calls, append([]string{name}, argv[1:]...))
	i := &invocation{Context: c, name: name, stdin: stdin, rel: -1}
	code = i.main(t, argv[1:])
	return i.stdout.String(), i.stderr.String(), code
}

// Called lists the calls of one tool, without its name, one line each.
func (c *Context) Called(tool string) (lines []string) {
	c.model.mu.Lock()
	defer c.model.mu.Unlock()
	for _, argv := range c.Calls {
		if argv[0] == tool {
			lines = append(lines, strings.Join(argv[1:], " "))
		}
	}
	return lines
}

type runner struct {
	c    *Context
	next host.Runner
}

// Runner answers hook tools from the context, and passes other commands on to
// next; without one they fail as programs that are not installed do.
func (c *Context) Runner(next host.Runner) host.Runner { return runner{c, next} }

func (r runner) Run(ctx context.Context, cmd host.Command) ([]byte, error) {
	if !slices.Contains(ToolNames(), cmd.Argv[0]) {
		if r.next != nil {
			return r.next.Run(ctx, cmd)
		}
		return nil, &host.CommandError{Argv: cmd.Argv, Code: -1, Err: &exec.Error{Name: cmd.Argv[0], Err: exec.ErrNotFound}}
	}
	stdout, stderr, code := r.c.Run(cmd.Argv, cmd.Stdin)
	if code != 0 {
		return []byte(stdout), &host.CommandError{
			Argv: cmd.Argv, Code: code, Stderr: strings.TrimSpace(stderr), Err: fmt.Errorf("exit status %d", code),
		}
	}
	return []byte(stdout), nil
}
