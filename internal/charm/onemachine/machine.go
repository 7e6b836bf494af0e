package onemachine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// Machine is a machine without Juju that runs a CI, or a worker of another machine's CI.
type Machine struct {
	Charm  *actions.Actions
	Model  *Model
	Stdout io.Writer
}

// New returns the machine. Its progress goes to out, which may be a terminal.
func New(c *actions.Actions, out Progress) (*Machine, error) {
	m, err := Load(c.Host)
	if err != nil {
		return nil, err
	}
	m.Progress = out
	c.Tools = m
	c.Event = juju.Event{Unit: m.state.Unit, ModelName: juju.AppOf(m.state.Unit), CharmDir: c.CharmDir}
	return &Machine{Charm: c, Model: m, Stdout: out.W}, nil
}

// timer starts reconcile regularly.
const timer = "concourse-ci-machine.timer"

// lockFile separates two commands that change the machine. The pipeline has its own lock.
const lockFile = wellknown.LockDir + "/machine"

// Up sets the machine up, or repairs it. With an invitation it becomes a worker of another
// machine's web.
func (m *Machine) Up(ctx context.Context, invitation string) error {
	event := "config-changed"
	if m.Model.Release != "" {
		event = "upgrade-charm" // which reads the release's path, as after juju attach-resource
	}
	return m.locked("set up this machine", func() error {
		if err := m.Model.findRelease(); err != nil {
			return err
		}
		first := !m.Model.Installed()
		if first {
			if err := errors.Join(m.refuse(ctx), m.refuseFolders()); err != nil {
				return err
			}
		}
		if err := m.chooseOptions(invitation); err != nil {
			return err
		}
		if first {
			if err := m.checkPorts(); err != nil {
				return err
			}
			m.Model.recordFolders()
		}
		m.Model.state.Down = false
		if err := m.Model.Save(); err != nil {
			return err
		}
		return m.run(ctx, event)
	})
}

// chooseOptions writes the first file of options, applies an invitation, and checks all
// options.
func (m *Machine) chooseOptions(invitation string) error {
	if invitation != "" {
		if err := m.join(invitation); err != nil {
			return err
		}
	}
	if err := WriteOptions(m.Model.Host, m.Charm.CharmDir); err != nil {
		return err
	}
	set := map[string]string{}
	if invitation != "" {
		set["mode"] = string(config.ModeWorker)
	}
	text, options, err := m.Model.changed(set, nil)
	if err == nil {
		m.Model.options = options
		err = m.Model.writeOptions(text)
	}
	return err
}

// Reconcile repairs the machine, as the timer does. On a machine that is down it completes a
// stop that was killed.
func (m *Machine) Reconcile(ctx context.Context) error {
	return m.locked("repair this machine", func() error {
		switch {
		case !m.Model.Installed():
			return nil
		case m.Model.state.Down:
			return m.stop(ctx)
		}
		return m.run(ctx, "update-status")
	})
}

// run runs the pipeline once, with the database before it and fly after it. Options that were
// written into the file are checked here.
func (m *Machine) run(ctx context.Context, event string) error {
	if bad := m.Model.ownProblems(m.Model.options); len(bad) > 0 {
		return errors.Join(&OptionsError{bad}, m.Model.StatusSet(ctx, juju.Blocked, bad[0]))
	}
	blocked := m.followWeb(ctx, func(ctx context.Context) error { return m.checkRelease(ctx, release.Release{}) })
	if m.Model.wantsDatabase() {
		if err := m.Model.SetUpDatabase(ctx); err != nil {
			return fmt.Errorf("cannot set up the database: %w; to use another server, set %s", err, databaseOption)
		}
	}
	if m.Model.options["mode"] != "worker" {
		if err := m.Model.apply(ctx, ownUser{m.Model}); err != nil {
			return err
		}
	}
	if err := m.hook(ctx, event); err != nil {
		return err
	}
	if blocked != "" && m.Model.state.Status != juju.Blocked {
		if err := m.Model.StatusSet(ctx, juju.Blocked, blocked); err != nil {
			return err
		}
	}
	units, err := resource.ShowUnits(ctx, m.Model.Host, timer)
	if err != nil {
		return err
	}
	return m.Model.apply(ctx, resource.Service{Unit: timer, State: units[timer], Up: true}, fly{})
}

// hook runs the pipeline with an event, and saves the state.
func (m *Machine) hook(ctx context.Context, event string) error {
	m.Charm.Event.Name, m.Charm.Event.Action = event, nil
	err := m.Charm.Hook(ctx)
	return errors.Join(err, m.Model.Save())
}

// Down stops the CI and keeps its data.
func (m *Machine) Down(ctx context.Context) error {
	return m.locked("stop the CI", func() error {
		if !m.Model.Installed() {
			return errNotUp
		}
		m.Model.state.Down = true // saved first, so that the timer completes a stop that is killed
		if err := m.Model.Save(); err != nil {
			return err
		}
		return m.stop(ctx)
	})
}

// stop stops the CI. The timer is the last, because it completes a stop that was killed.
func (m *Machine) stop(ctx context.Context) error {
	if err := m.hook(ctx, "stop"); err != nil {
		return err
	}
	units, err := resource.ShowUnits(ctx, m.Model.Host, timer)
	if err != nil {
		return err
	}
	why := m.Charm.Commands().WhyRemoved("stop")
	return m.Model.apply(ctx, resource.Service{Unit: timer, State: units[timer], Why: why})
}

// CheckSetUp returns an error if there is nothing to purge. Up may have been refused, or a
// purge killed at its end.
func (m *Machine) CheckSetUp() error {
	left, err := m.Model.Host.ReadDir(wellknown.StateDir)
	empty := err == nil && len(left) == 0
	if m.Model.Installed() || m.Model.Host.Exists(OptionsFile) || empty {
		return nil
	}
	return errNotUp
}

var errNotUp = errors.New("this machine runs no CI; to set it up run: sudo concourse-ci-machine up")

// locked runs a command that changes the machine. Only root can, and not on a machine of
// Juju. The files are read again: another command may have changed them before.
func (m *Machine) locked(what string, do func() error) error {
	if m.Model.Host.Real() && os.Geteuid() != 0 {
		return fmt.Errorf("cannot %s: only root may; run the command with sudo", what)
	}
	unlock, err := m.Model.Host.Lock(lockFile)
	if err != nil {
		return fmt.Errorf("cannot %s: cannot lock %s: %w", what, lockFile, err)
	}
	defer unlock()
	defer m.Model.Progress.End()
	if err := m.refuseJuju(); err != nil {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	if err := m.Model.reload(); err != nil {
		return err
	}
	return do()
}

// Plan prints what Up would change now. It changes nothing.
func (m *Machine) Plan(ctx context.Context) error {
	if err := m.refuseNoSystemd(); err != nil {
		return err
	}
	if m.Model.options == nil {
		m.Model.options = map[string]any{}
		addFirst(m.Model.options)
	}
	if err := m.Model.checkOptions(m.Model.options); err != nil {
		return err
	}
	if m.Model.wantsDatabase() && m.Model.database() == nil {
		fmt.Fprintln(m.Stdout, "PostgreSQL is installed and set up first, with a cluster for this machine's web.")
		m.Model.state.Database = &database{Port: postgresPort, Password: "not made yet"}
	}
	m.Charm.Event.Action = &juju.ActionRef{Name: "plan"}
	if err := m.Charm.Action(ctx); err != nil {
		return err
	}
	if text, ok := m.Model.Results["plan"].(string); ok {
		fmt.Fprintln(m.Stdout, text)
	}
	if m.Model.Failure != "" {
		return errors.New(m.Model.Failure)
	}
	return nil
}

// Action runs an action with parameters, and prints its results.
func (m *Machine) Action(ctx context.Context, name string, params map[string]any) error {
	return m.locked("run "+name, func() error {
		if !m.Model.Installed() {
			return errNotUp
		}
		m.Model.Action = params
		m.Charm.Event.Action, m.Charm.Event.Name = &juju.ActionRef{Name: name}, name+"-action"
		if err := m.Charm.Action(ctx); err != nil {
			return err
		}
		if err := m.Model.Save(); err != nil {
			return err
		}
		m.Model.Progress.End()
		if err := printResults(m.Stdout, m.Model.Results); err != nil {
			return err
		}
		if m.Model.Failure != "" {
			return errors.New(m.Model.Failure)
		}
		return nil
	})
}

// printResults prints one text as it is, and several results with their names.
func printResults(w io.Writer, results map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(results)) {
		text := strings.TrimRight(fmt.Sprint(results[name]), "\n")
		if len(results) > 1 {
			sep := ": "
			if strings.Contains(text, "\n") {
				sep = ":\n"
			}
			text = name + sep + text
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// decision returns what the pipeline decides now, without a change.
func (m *Machine) decision(ctx context.Context) (charm.Decision, error) {
	m.Charm.Event.Name, m.Charm.Event.Action = "status-action", &juju.ActionRef{Name: "status"}
	return m.Charm.Decide(ctx)
}
