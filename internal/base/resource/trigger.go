package resource

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// StampDir holds the stamps of triggers. It lies in /run, so that a reboot,
// which forgets what was reloaded, forgets the stamps too.
const StampDir = "/run/concourse-charm"

// Stamp is the file of the trigger of a name.
func Stamp(name string) string { return StampDir + "/" + name + ".stamp" }

// Trigger is a command that has to run whenever its inputs changed since it
// last succeeded: a daemon-reload, a restart. It compares a stamp that is
// written only after success, so a crash between writing a file and the
// restart that it needs loses nothing, and an unchanged input restarts nothing.
//
// The stamp alone says what this charm did last. Others write the same files and
// start the same units, so it also holds when the Files were written and, with a
// Unit, which process was started. What was written since is done again, unless
// the process is still the one that was started with these very inputs; a process
// that somebody started since, with files as they were, has them too.
type Trigger struct {
	Name     string // names the stamp; one file name
	Inputs   [][]byte
	Files    []string // paths of those inputs that are files
	Unit     string   // whose process reads the inputs when it starts; "" for none
	State    UnitState
	Op       string // "restart concourse-worker"
	Why      string // default "its inputs changed since it last ran"
	Disrupts string // see plan.Step
	Tolerate bool   // see plan.Step; it is due again in the next run
	// Adopt writes the stamp without running the command: an earlier step of
	// the same run starts what the command would restart, with these inputs.
	Adopt bool
	Then  []host.Command
	Do    func(context.Context, host.Host) error // after Then; nil: nothing more
}

// stamp is what is known of the command's last success.
type stamp struct {
	Inputs     string `json:"inputs"`               // their hash
	Written    string `json:"written,omitempty"`    // the hash of the files' dates
	Invocation string `json:"invocation,omitempty"` // of Unit, see UnitState
}

// Diff implements plan.Resource.
func (t Trigger) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	file := Stamp(t.Name)
	data, err := h.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read stamp of %s: %w", t.Name, err)
	}
	var last stamp
	if err == nil && json.Unmarshal(data, &last) != nil {
		last = stamp{} // one that says nothing
	}
	now := stamp{Inputs: t.inputs(), Written: t.written(h.Root), Invocation: t.State.Invocation}
	sameProcess := t.Unit != "" && last.Invocation == now.Invocation
	if last.Inputs == now.Inputs && (sameProcess || last.Written == now.Written) {
		return nil, nil
	}
	step := plan.Step{Op: t.Op, Why: t.Why, Disrupts: t.Disrupts, Tolerate: t.Tolerate}
	switch {
	case step.Why != "":
	case err != nil:
		step.Why = "not done since the machine started"
	case last.Inputs == now.Inputs:
		step.Why = "its files were written by somebody else since it last ran"
	default:
		step.Why = "its inputs changed since it last ran"
	}
	if t.Adopt {
		step.Op, step.Disrupts = "note the inputs of "+t.Op, ""
		step.Why = "just started with them"
		t.Then, t.Do = nil, nil
	}
	step.Do = func(ctx context.Context) error {
		// Before the command: what is written while it runs is not what it took.
		now.Written = t.written(h.Root)
		for _, c := range t.Then {
			if _, err := h.Run(ctx, c); err != nil {
				return err
			}
		}
		if t.Do != nil {
			if err := t.Do(ctx, h); err != nil {
				return err
			}
		}
		if t.Unit != "" {
			states, err := ShowUnits(ctx, h, t.Unit)
			if err != nil {
				return err
			}
			now.Invocation = states[t.Unit].Invocation
		}
		data, err := json.Marshal(now)
		if err != nil {
			return err
		}
		return h.WriteFile(file, append(data, '\n'), 0o600)
	}
	return plan.Plan{step}, nil
}

func (t Trigger) inputs() string {
	sum := sha256.New()
	for _, in := range t.Inputs {
		fmt.Fprintf(sum, "%d\n", len(in))
		sum.Write(in)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// written tells the files' dates; "" without files.
func (t Trigger) written(root host.Root) string {
	if len(t.Files) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, p := range t.Files {
		date := "missing"
		if st, err := root.Stat(p); err == nil {
			date = st.ModTime().UTC().Format(time.RFC3339Nano)
		}
		fmt.Fprintf(sum, "%s %s\n", p, date)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// NoStamps is a machine without stamps of triggers.
type NoStamps struct{ Why string }

// Diff implements plan.Resource.
func (s NoStamps) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	files, err := h.Glob(Stamp("*"))
	if err != nil {
		return nil, err
	}
	var p plan.Plan
	for _, f := range files {
		gone, err := Absent{Path: f, Why: s.Why}.Diff(ctx, h)
		if err != nil {
			return nil, err
		}
		p = append(p, gone...)
	}
	return p, nil
}
