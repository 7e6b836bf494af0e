// Package sandbox runs a complete unit in a throwaway folder. It has a copy of a fixture
// host as its root, an in-memory Juju model behind real hook-tool commands on PATH, and
// stand-ins for systemd, its journal and apt that only record. The built dispatch runs in
// it unchanged. The demo, tests and benchmarks use it. It never changes anything outside
// its folder.
package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// Options describe the unit.
type Options struct {
	Host  string // the fixture host's tree
	Charm string // folder of the unpacked charm: dispatch, bin/, config.yaml
	Exe   string // this program, which calls Intercept first
	Unit  string // "concourse-ci-machine/0"
	// Main, if set, runs hooks in this process instead of the built dispatch.
	Main Program
}

// World holds the unit.
type World struct {
	Dir     string
	Root    host.Root
	Model   *jujutest.Model
	Machine *Machine
	// Start, if set, changes the command of each dispatch run.
	Start func(*exec.Cmd)
	// Kill, if set, ends a run when it returns true, as kill -9 does, before or after a
	// command. A dispatch process is killed only at commands of the Machine, and a run of
	// Main also at hook tools.
	Kill func(argv []string, after bool) bool

	main    Program
	charm   string
	tools   string
	server  *jujutest.Server
	current *jujutest.Context
}

// Intercept runs the hook tool or stand-in command if this program was started as one. Then
// done is true and the program must exit with code.
func Intercept() (code int, done bool) {
	base := filepath.Base(os.Args[0])
	switch {
	case slices.Contains(machinePrograms, base):
		return machineMain(os.Args, os.Stdout, os.Stderr), true
	case jujutest.IsTool(os.Args[0]) && os.Getenv("JUJU_CONTEXT_ID") != "":
		return jujutest.ToolMain(os.Args, os.Stdin, os.Stdout, os.Stderr, os.Getenv), true
	}
	return 0, false
}

// New creates the unit. Close removes it.
func New(o Options) (w *World, err error) {
	dir, err := os.MkdirTemp("", "cci-")
	if err != nil {
		return nil, err
	}
	// Pebble's services run as nobody and need their files.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	w = &World{Dir: dir, Root: host.Root(filepath.Join(dir, "root")), tools: filepath.Join(dir, "tools"),
		charm: o.Charm, main: o.Main}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot make a sandbox: %w", errors.Join(err, os.RemoveAll(dir)))
		}
	}()
	if err := os.CopyFS(string(w.Root), os.DirFS(o.Host)); err != nil {
		return nil, err
	}
	if o.Main == nil { // otherwise no process starts them
		if err := w.installTools(o.Exe); err != nil {
			return nil, err
		}
	}
	w.Model = jujutest.New(o.Unit)
	w.Model.CharmDir = o.Charm
	if err := w.Model.LoadConfig(filepath.Join(o.Charm, "config.yaml")); err != nil {
		return nil, err
	}
	if w.server, err = jujutest.Serve(filepath.Join(dir, "juju.sock"),
		func() *jujutest.Context { return w.current }); err != nil {
		return nil, err
	}
	w.Machine = &Machine{Root: w.Root}
	if err := w.Machine.serve(filepath.Join(dir, "machine.sock")); err != nil {
		return nil, err
	}
	// An operator's setting: the worker's health port of this sandbox.
	return w, w.Root.WriteFile("/etc/default/concourse",
		fmt.Appendf(nil, "CONCOURSE_HEALTHCHECK_BIND_PORT=%d\n", w.Machine.port), 0o644)
}

// installTools installs the commands that a dispatch process starts.
func (w *World) installTools(exe string) error {
	if err := jujutest.InstallTools(w.tools, exe); err != nil {
		return err
	}
	for _, p := range machinePrograms {
		if err := os.Symlink(exe, filepath.Join(w.tools, p)); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the unit with its folder.
func (w *World) Close() error {
	w.Machine.close()
	return errors.Join(w.server.Close(), os.RemoveAll(w.Dir))
}

// Result holds the result of one dispatch run.
type Result struct {
	Code     int
	Output   string // stdout and stderr
	Statuses []jujutest.StatusLine
	Logs     []jujutest.LogLine
	Commands []string // recorded by the Machine
	Calls    []string // calls of hook tools, with their arguments
	Action   *jujutest.Action
}

// Status returns the last status that the run set.
func (r Result) Status() jujutest.StatusLine {
	if len(r.Statuses) == 0 {
		return jujutest.StatusLine{}
	}
	return r.Statuses[len(r.Statuses)-1]
}

// Plan returns the logged plan of the run, or "" for an empty one.
func (r Result) Plan() string {
	for _, l := range r.Logs {
		// In a relation's hook Juju puts the relation before the message.
		if _, text, ok := strings.Cut(l.Message, "plan:\n"); ok {
			return text
		}
	}
	return ""
}

// Hook runs a hook without a relation.
func (w *World) Hook(name string) (Result, error) { return w.run(w.Model.Begin(jujutest.Hook(name))) }

// RelationHook runs a hook of a relation. kind is joined, changed, departed and so on.
func (w *World) RelationHook(r *jujutest.Relation, kind, remoteUnit string) (Result, error) {
	return w.run(w.Model.Begin(jujutest.RelationHook(r, kind, remoteUnit)))
}

// Event runs the hook of an event.
func (w *World) Event(e juju.Event) (Result, error) { return w.run(w.Model.Begin(e)) }

// Action runs an action.
func (w *World) Action(name string, params map[string]any) (Result, error) {
	r, err := w.run(w.Model.BeginAction(name, params))
	r.Action = w.Model.Actions[len(w.Model.Actions)-1]
	return r, err
}

// Command returns the dispatch command as Juju would start it for the current hook.
func (w *World) Command(ctx *jujutest.Context, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(w.charm, "dispatch"), args...)
	cmd.Dir = w.charm
	if ctx != nil {
		cmd.Env = ctx.HookEnv(filepath.Join(w.Dir, "juju.sock"), w.tools)
	}
	// The stand-ins come before the machine's own commands.
	cmd.Env = append(cmd.Env, "PATH="+w.tools+":/usr/bin:/bin", "CHARM_ROOT="+string(w.Root),
		machineSocket+"="+filepath.Join(w.Dir, "machine.sock"))
	if w.Start != nil {
		w.Start(cmd)
	}
	return cmd
}

func (w *World) run(ctx *jujutest.Context) (Result, error) {
	statuses, logs := len(w.Model.Statuses), len(w.Model.Logs)
	w.Machine.Recorded()
	w.current = ctx
	out, err := w.dispatch(ctx, true)
	w.current = nil
	r := Result{Output: strings.TrimSpace(out.Stdout), Code: out.Code}
	if err == nil && out.Code == 0 {
		err = ctx.Commit()
	} else {
		ctx.Rollback()
	}
	r.Statuses, r.Logs = w.Model.Statuses[statuses:], w.Model.Logs[logs:]
	r.Commands = w.Machine.Recorded()
	for _, c := range ctx.Calls {
		r.Calls = append(r.Calls, strings.Join(c, " "))
	}
	return r, err
}

// Output holds what a run of dispatch wrote, and its exit code.
type Output struct {
	Stdout, Stderr string
	Code           int
}

// RunAsOperator runs dispatch as people do, without Juju's environment.
func (w *World) RunAsOperator(args ...string) (Output, error) { return w.dispatch(nil, false, args...) }

// dispatch runs dispatch to its end. With joined, standard error goes to the output too.
func (w *World) dispatch(ctx *jujutest.Context, joined bool, args ...string) (Output, error) {
	var out, errs bytes.Buffer
	to := io.Writer(&errs)
	if joined {
		to = &out
	}
	if w.main != nil {
		code := w.runHere(ctx, args, &out, to)
		return Output{out.String(), errs.String(), code}, nil
	}
	cmd := w.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, to
	if err := cmd.Start(); err != nil {
		return Output{Code: Killed}, err
	}
	w.Machine.interrupt(func(argv []string, after bool) bool {
		return w.Kill != nil && w.Kill(argv, after) && cmd.Process.Kill() == nil
	})
	err := cmd.Wait()
	w.Machine.interrupt(nil)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return Output{out.String(), errs.String(), cmd.ProcessState.ExitCode()}, err
}
