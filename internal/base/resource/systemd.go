package resource

import (
	"bufio"
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// UnitState holds the state of a unit in systemd. The zero value is an unknown unit.
type UnitState struct {
	Load   string // LoadState: loaded, not-found, masked
	Active string // ActiveState: active, inactive, failed, activating, deactivating
	Sub    string // SubState: running, dead, auto-restart
	File   string // UnitFileState: enabled, disabled, masked
	// Invocation is the InvocationID of the running process's start, 32 hex digits, as
	// _SYSTEMD_INVOCATION_ID in the journal.
	Invocation string
}

// Running reports whether the unit is active.
func (s UnitState) Running() bool { return s.Active == "active" }

// ShowUnits queries systemd for the states of all given units in one call.
func ShowUnits(ctx context.Context, r host.Runner, units ...string) (map[string]UnitState, error) {
	out, err := r.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second,
		Argv: append([]string{"systemctl", "show",
			"--property=Id,LoadState,ActiveState,SubState,UnitFileState,InvocationID"}, units...)})
	if err != nil {
		return nil, err
	}
	return parseUnits(out), nil
}

// parseUnits parses the output of systemctl show: blocks of Key=value lines, separated by
// empty lines.
func parseUnits(out []byte) map[string]UnitState {
	states, id, s := map[string]UnitState{}, "", UnitState{}
	flush := func() {
		if id != "" {
			states[id] = s
		}
		id, s = "", UnitState{}
	}
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		key, value, _ := strings.Cut(sc.Text(), "=")
		switch key {
		case "":
			flush()
		case "Id":
			id = value
		case "LoadState":
			s.Load = value
		case "ActiveState":
			s.Active = value
		case "SubState":
			s.Sub = value
		case "UnitFileState":
			s.File = value
		case "InvocationID":
			s.Invocation = value
		}
	}
	flush()
	return states
}

// Systemctl returns a command that changes a unit.
func Systemctl(args ...string) host.Command {
	return host.Command{Argv: append([]string{"systemctl"}, args...), Deadline: 2 * time.Minute}
}

// Service describes a systemd unit that is enabled and running, or neither. State is the
// result of ShowUnits, so that Diff needs no command.
type Service struct {
	Unit  string
	State UnitState
	Up    bool
	Why   string // reason of the stop
}

// Diff implements plan.Resource.
func (s Service) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	do := func(args ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := h.Run(ctx, Systemctl(args...))
			return err
		}
	}
	var p plan.Plan
	switch {
	case s.Up:
		if s.State.File != "enabled" {
			p = append(p, plan.Step{Op: "enable " + s.Unit, Why: "not enabled", Do: do("enable", s.Unit)})
		}
		if !s.State.Running() && s.State.Active != "activating" {
			why := "not running"
			if s.State.Active == "failed" {
				why = "failed"
			}
			p = append(p, plan.Step{Op: "start " + s.Unit, Why: why, Do: do("start", s.Unit)})
		}
	default:
		if s.State.Running() || s.State.Active == "activating" {
			p = append(p, plan.Step{Op: "stop " + s.Unit, Why: s.Why, Do: do("stop", s.Unit)})
		}
		if s.State.Active == "failed" { // systemd lists it among failed units for ever, also without its file
			p = append(p, plan.Step{Op: "reset-failed " + s.Unit, Why: s.Why, Do: do("reset-failed", s.Unit)})
		}
		if s.State.File == "enabled" {
			p = append(p, plan.Step{Op: "disable " + s.Unit, Why: s.Why, Do: do("disable", s.Unit)})
		}
	}
	return p, nil
}
