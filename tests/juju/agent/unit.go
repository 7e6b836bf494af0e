package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/juju/charm/v12"
	"github.com/juju/clock"
	"github.com/juju/loggo"
	"github.com/juju/names/v5"

	"github.com/juju/juju/api/agent/secretsmanager"
	"github.com/juju/juju/api/agent/uniter"
	"github.com/juju/juju/internal/worker/uniter/hook"
	"github.com/juju/juju/internal/worker/uniter/runner"
	"github.com/juju/juju/internal/worker/uniter/runner/context"
	"github.com/juju/juju/internal/worker/uniter/runner/jujuc"
	"github.com/juju/juju/juju/sockets"
	"github.com/juju/juju/rpc/params"
	jujusecrets "github.com/juju/juju/secrets"
	"github.com/juju/juju/secrets/provider"
	jujuprovider "github.com/juju/juju/secrets/provider/juju"
)

// Unit is a unit with its agent.
type Unit struct {
	Name, Address string
	Status        StatusLine
	Statuses      []StatusLine // oldest first
	Version       string
	State         map[string]string
	Ports         []params.EntityPortRange
	Reboots       int // asked for

	app     *Application
	model   *Model
	paths   paths
	api     *uniter.State
	runners runner.Factory
	due     due
	joined  map[int]*context.RelationUnitShim // as internal/worker/uniter/relation's relationers

	logMu sync.Mutex
	logs  []LogLine
}

// Ran is a hook or action that ran.
type Ran struct {
	Hook     string // "install", "tsa-relation-changed ci/1", "action plan"
	Err      error  // of the agent: a charm that failed, a commit that was refused
	Statuses []StatusLine
	Logs     []LogLine
}

// paths are the paths of a unit agent in its own data directory.
type paths struct{ data, tag string }

func (p paths) GetToolsDir() string        { return filepath.Join(p.data, "tools", p.tag) }
func (p paths) GetBaseDir() string         { return filepath.Join(p.data, "agents", p.tag) }
func (p paths) GetCharmDir() string        { return filepath.Join(p.GetBaseDir(), "charm") }
func (p paths) GetResourcesDir() string    { return filepath.Join(p.GetBaseDir(), "resources") }
func (p paths) GetMetricsSpoolDir() string { return filepath.Join(p.GetBaseDir(), "state", "spool") }
func (p paths) GetJujucServerSocket(bool) sockets.Socket {
	return sockets.Socket{Network: "unix", Address: filepath.Join(p.GetBaseDir(), "agent.socket")}
}
func (p paths) GetJujucClientSocket(remote bool) sockets.Socket {
	return p.GetJujucServerSocket(remote)
}

// ToolsDir is the folder with links to the hook tools of a unit with its data in dir.
func ToolsDir(dir, unit string) string { return paths{dir, unitTag(unit)}.GetToolsDir() }

// CharmDir is the folder in which the unit's charm must be before AddUnit.
func CharmDir(dir, unit string) string { return paths{dir, unitTag(unit)}.GetCharmDir() }

// AddUnit adds a unit of a deployed charm. Its agent's files are below dir, the
// hook tools are links to the program jujuc.
func (m *Model) AddUnit(name, address, dir, jujucExe string) (*Unit, error) {
	m.mu.Lock()
	app := m.apps[appOf(name)]
	m.mu.Unlock()
	if app == nil || app.charm == nil {
		return nil, fmt.Errorf("cannot add unit %s: its application has no charm", name)
	}
	tag := names.NewUnitTag(name)
	u := &Unit{Name: name, Address: address, app: app, model: m, paths: paths{dir, tag.String()}, State: map[string]string{},
		joined: map[int]*context.RelationUnitShim{}}
	u.due = newDue()
	if err := os.MkdirAll(u.paths.GetToolsDir(), 0o755); err != nil {
		return nil, err
	}
	for _, tool := range jujuc.CommandNames() {
		if err := os.Symlink(jujucExe, filepath.Join(u.paths.GetToolsDir(), tool)); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	m.mu.Lock()
	app.units = append(app.units, u)
	m.mu.Unlock()
	return u, u.start(tag)
}

// start puts Juju's parts together as the uniter worker does.
func (u *Unit) start(tag names.UnitTag) error {
	registered()
	logs := loggo.NewContext(loggo.DEBUG)
	if err := logs.AddWriter("unit", u); err != nil {
		return err
	}
	call := caller{u}
	u.api = uniter.NewState(call, tag)
	unit, err := u.api.Unit(tag)
	if err != nil {
		return err
	}
	resources, err := uniter.NewResourcesFacadeClient(call, tag)
	if err != nil {
		return err
	}
	secrets := secretsmanager.NewClient(call)
	contexts, err := context.NewContextFactory(context.FactoryConfig{
		State: u.api, Unit: unit, Tracker: tracker{u}, SecretsClient: secrets,
		SecretsBackendGetter: func() (jujusecrets.BackendsClient, error) { return jujusecrets.NewClient(secrets) },
		Payloads:             uniter.NewPayloadFacadeClient(call), Resources: resources,
		GetRelationInfos: u.relations, Paths: u.paths, Clock: clock.WallClock, Logger: logs.GetLogger("juju.worker.uniter"),
	})
	if err != nil {
		return err
	}
	u.runners, err = runner.NewFactory(u.paths, contexts, runner.NewRunner, nil)
	return err
}

// registered is the built-in secret backend, which every program of Juju registers.
var registered = sync.OnceFunc(func() { provider.Register(jujuprovider.NewProvider()) })

// relations are the relations that the unit has entered, with the members that hooks have
// reported.
func (u *Unit) relations() map[int]*context.RelationInfo {
	u.model.mu.Lock()
	known := map[int][]string{}
	for id, r := range u.due.relations {
		known[id] = r.members()
	}
	u.model.mu.Unlock()
	out := map[int]*context.RelationInfo{}
	for id, members := range known {
		if r, err := u.api.RelationById(id); err == nil {
			ru, err := r.Unit(names.NewUnitTag(u.Name))
			if err != nil {
				continue
			}
			u.joined[id] = &context.RelationUnitShim{RelationUnit: ru}
		}
		// The agent keeps a relation that the controller forgot without relation-broken.
		if ru := u.joined[id]; ru != nil {
			out[id] = &context.RelationInfo{RelationUnit: ru, MemberNames: members}
		}
	}
	return out
}

func (u *Unit) leads() bool { return u.app.Leader == u.Name }

// Write takes a line of the log.
func (u *Unit) Write(e loggo.Entry) {
	u.logMu.Lock()
	defer u.logMu.Unlock()
	u.logs = append(u.logs, LogLine{e.Module, e.Level.String(), e.Message})
}

func (u *Unit) taken(from int) []LogLine {
	u.logMu.Lock()
	defer u.logMu.Unlock()
	return slices.Clone(u.logs[from:])
}

// record runs f and reports what it left.
func (u *Unit) record(name string, f func() error) Ran {
	logs, statuses := len(u.taken(0)), len(u.Statuses)
	err := f()
	return Ran{Hook: name, Err: err, Statuses: slices.Clone(u.Statuses[statuses:]), Logs: u.taken(logs)}
}

// run runs one hook; what is after a space in its name is for people.
func (u *Unit) run(info hook.Info, name string) Ran {
	return u.record(name, func() error {
		r, err := u.runners.NewHookRunner(info)
		if err != nil {
			return err
		}
		hookName, _, _ := strings.Cut(name, " ")
		_, err = r.RunHook(hookName)
		return err
	})
}

// Act is `juju run unit name`: the parameters are checked against the charm's
// actions.yaml and get its defaults, as the client and the controller do.
func (u *Unit) Act(name string, given map[string]any) (*Action, Ran) {
	a := &Action{ID: fmt.Sprint(len(u.model.actions) + 1), Name: name, Status: "pending"}
	ran := u.record("action "+name, func() error {
		spec, ok := u.app.charm.Actions().ActionSpecs[name]
		if !ok {
			return fmt.Errorf("action %q not defined on unit %q", name, u.Name)
		}
		if err := spec.ValidateParams(given); err != nil {
			return err
		}
		full, err := spec.InsertDefaults(given)
		if err != nil {
			return err
		}
		a.Params = full
		u.model.mu.Lock()
		u.model.actions = append(u.model.actions, a)
		u.model.mu.Unlock()
		api, err := u.api.Action(names.NewActionTag(a.ID))
		if err != nil {
			return err
		}
		r, err := u.runners.NewActionRunner(api, nil)
		if err != nil {
			return err
		}
		_, err = r.RunAction(name)
		return err
	})
	return a, ran
}

// Exec runs shell commands as `juju exec` on the unit; in a relation's context if id is not
// -1.
func (u *Unit) Exec(id int, remote, commands string) (stdout, stderr string, code int, err error) {
	r, err := u.runners.NewCommandRunner(context.CommandInfo{RelationId: id, RemoteUnitName: remote, ForceRemoteUnit: remote == ""})
	if err != nil {
		return "", "", 0, err
	}
	resp, err := r.RunCommands(commands, runner.Operator)
	if resp == nil {
		return "", "", 0, err
	}
	return string(resp.Stdout), string(resp.Stderr), resp.Code, err
}

// Actions are the actions of the charm's actions.yaml.
func (u *Unit) Actions() map[string]charm.ActionSpec { return u.app.charm.Actions().ActionSpecs }
