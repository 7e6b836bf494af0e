package jujutest

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

// Context represents one hook or action from its beginning to Commit or Rollback.
type Context struct {
	ID    string // JUJU_CONTEXT_ID
	Event juju.Event
	Calls [][]string // each hook tool call, as argv

	model   *Model
	book    Book // the model's, with the changes of this hook
	action  *Action
	created map[string]bool // secrets created in this hook
	failing error           // the controller's error at Commit
	done    bool
}

// Begin starts the hook or action of an event. The model provides the fields that name the
// unit and the model.
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
		c.action = &Action{ID: fmt.Sprint(len(m.Actions) + 1), Name: name, Params: map[string]any{},
			Results: map[string]any{}, Status: "running"}
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

// Hook returns the event of a hook without a relation.
func Hook(name string) juju.Event { return juju.Event{Name: name} }

// RelationHook returns the event of a relation hook. kind is created, joined, changed,
// departed or broken. remoteUnit is "" in created and broken.
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

// Commit ends a hook that exited 0. An error is the controller's refusal of its changes.
// Then the model is unchanged, and Juju treats the hook as failed.
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
			if s.ID != other.ID && s.Label != "" && s.Label == other.Label && s.Owner == other.Owner &&
				c.book.secret(other.ID) != nil {
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
		if to := m.relation(r.ID); to != nil { // its remote side may have changed
			to.Local, to.LocalApp = r.Local, r.LocalApp
		}
	}
	m.Ports, m.Secrets, m.State, m.Reboot = c.book.Ports, c.book.Secrets, c.book.State, c.book.Reboot
	return nil
}

// Rollback ends a failed hook or action.
func (c *Context) Rollback() {
	c.model.mu.Lock()
	defer c.model.mu.Unlock()
	c.done = true
	if c.action != nil {
		c.action.Status = "failed"
	}
}

// Run runs one hook tool, named by argv[0], as the agent does for a hook.
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

// Runner answers hook tools from the context, and passes other commands to next. Without
// next they fail like missing programs.
func (c *Context) Runner(next host.Runner) host.Runner { return runner{c, next} }

func (r runner) Run(ctx context.Context, cmd host.Command) ([]byte, error) {
	if !slices.Contains(ToolNames(), cmd.Argv[0]) {
		if r.next != nil {
			return r.next.Run(ctx, cmd)
		}
		return nil, &host.CommandError{Argv: cmd.Argv, Code: -1,
			Err: &exec.Error{Name: cmd.Argv[0], Err: exec.ErrNotFound}}
	}
	stdout, stderr, code := r.c.Run(cmd.Argv, cmd.Stdin)
	if code != 0 {
		return []byte(stdout), &host.CommandError{
			Argv: cmd.Argv, Code: code, Stderr: strings.TrimSpace(stderr), Err: fmt.Errorf("exit status %d", code),
		}
	}
	return []byte(stdout), nil
}

// HookEnv returns the complete environment of the hook's or action's process, as Juju 3.6
// sets it on Ubuntu. It contains none of the agent's variables, so HOME, USER, LOGNAME and
// SHELL are missing. toolsDir comes first on PATH.
func (c *Context) HookEnv(socket, toolsDir string) []string {
	m, e := c.model, c.Event
	hook, dispatch := e.Name, "hooks/"+e.Name
	if e.Action != nil {
		hook, dispatch = "", "actions/"+e.Action.Name
	}
	env := []string{
		"CHARM_DIR=" + m.CharmDir,
		"JUJU_CHARM_DIR=" + m.CharmDir,
		"JUJU_CONTEXT_ID=" + c.ID,
		"JUJU_HOOK_NAME=" + hook,
		"JUJU_AGENT_SOCKET_ADDRESS=" + socket,
		"JUJU_AGENT_SOCKET_NETWORK=unix",
		"JUJU_UNIT_NAME=" + m.Unit,
		"JUJU_MODEL_UUID=" + m.ModelUUID,
		"JUJU_MODEL_NAME=" + m.ModelName,
		"JUJU_API_ADDRESSES=10.0.0.1:17070",
		"JUJU_SLA=",
		"JUJU_MACHINE_ID=" + m.MachineID,
		"JUJU_PRINCIPAL_UNIT=",
		"JUJU_AVAILABILITY_ZONE=" + m.Zone,
		"JUJU_VERSION=" + m.JujuVersion,
		"CLOUD_API_VERSION=",
		"JUJU_CHARM_HTTP_PROXY=" + m.Proxy.HTTP,
		"JUJU_CHARM_HTTPS_PROXY=" + m.Proxy.HTTPS,
		"JUJU_CHARM_FTP_PROXY=",
		"JUJU_CHARM_NO_PROXY=" + m.Proxy.NoProxy,
	}
	if r := e.Relation; r != nil {
		env = append(env, "JUJU_RELATION="+r.Endpoint, "JUJU_RELATION_ID="+r.ID,
			"JUJU_REMOTE_UNIT="+e.RemoteUnit, "JUJU_REMOTE_APP="+e.RemoteApp)
		if e.DepartingUnit != "" {
			env = append(env, "JUJU_DEPARTING_UNIT="+e.DepartingUnit)
		}
	}
	if a := e.Action; a != nil {
		env = append(env, "JUJU_ACTION_NAME="+a.Name, "JUJU_ACTION_UUID="+a.UUID, "JUJU_ACTION_TAG=action-"+a.UUID)
	}
	if e.SecretID != "" {
		env = append(env, "JUJU_SECRET_ID="+e.SecretID, "JUJU_SECRET_LABEL="+e.SecretLabel)
		if s := m.secret(strings.TrimPrefix(e.SecretID, "secret:")); s != nil &&
			(e.Name == "secret-remove" || e.Name == "secret-expired") {
			env = append(env, "JUJU_SECRET_REVISION="+strconv.Itoa(len(s.Revisions)))
		}
	}
	return append(env,
		"APT_LISTCHANGES_FRONTEND=none",
		"DEBIAN_FRONTEND=noninteractive",
		"LANG=C.UTF-8",
		"TERM=tmux-256color",
		"PATH="+toolsDir+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"JUJU_DISPATCH_PATH="+dispatch,
	)
}
