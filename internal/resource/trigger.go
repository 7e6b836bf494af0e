package resource

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
)

// StampDir holds the stamps of triggers. It lies in /run, so that a reboot,
// which forgets what was reloaded, forgets the stamps too.
const StampDir = "/run/concourse-charm"

// Trigger is a command that has to run whenever its inputs changed since it
// last succeeded: a daemon-reload, a restart. It compares a stamp that is
// written only after success, so a crash between writing a file and the
// restart that it needs loses nothing, and an unchanged input restarts nothing.
type Trigger struct {
	Name     string // names the stamp; one file name
	Inputs   [][]byte
	Op       string // "restart concourse-worker"
	Why      string // default "its inputs changed since it last ran"
	Disrupts string // see plan.Step
	Tolerate bool   // see plan.Step; it is due again in the next run
	// Adopt writes the stamp without running the command: an earlier step of
	// the same run starts what the command would restart, with these inputs.
	Adopt bool
	Then  []host.Command
	Do    func(context.Context) error // after Then; nil: nothing more
}

// Diff implements plan.Resource.
func (t Trigger) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	sum := sha256.New()
	for _, in := range t.Inputs {
		fmt.Fprintf(sum, "%d\n", len(in))
		sum.Write(in)
	}
	stamp := File{Path: StampDir + "/" + t.Name + ".stamp", Data: fmt.Appendf(nil, "%x\n", sum.Sum(nil)), Mode: 0o600}
	have, err := h.ReadFile(stamp.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read stamp of %s: %w", t.Name, err)
	}
	if err == nil && string(have) == string(stamp.Data) {
		return nil, nil
	}
	step := plan.Step{Op: t.Op, Why: t.Why, Disrupts: t.Disrupts, Tolerate: t.Tolerate, Do: func(ctx context.Context) error {
		for _, c := range t.Then {
			if _, err := h.Run(ctx, c); err != nil {
				return err
			}
		}
		if t.Do != nil {
			if err := t.Do(ctx); err != nil {
				return err
			}
		}
		return h.WriteFile(stamp.Path, stamp.Data, stamp.Mode)
	}}
	switch {
	case step.Why != "":
	case err != nil:
		step.Why = "not done since the machine started"
	default:
		step.Why = "its inputs changed since it last ran"
	}
	if t.Adopt {
		step.Op, step.Disrupts = "note the inputs of "+t.Op, ""
		step.Why = "just started with them"
		step.Do = func(context.Context) error { return h.WriteFile(stamp.Path, stamp.Data, stamp.Mode) }
	}
	return plan.Plan{step}, nil
}
