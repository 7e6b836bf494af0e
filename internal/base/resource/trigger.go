package resource

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Stamp returns the file of the trigger with that name. It is in /run, because a reboot
// reloads everything and so outdates the stamps.
func Stamp(name string) string { return wellknown.RunDir + "/" + name + ".stamp" }

// Trigger runs a command when its inputs have changed since its last success, such as a
// daemon-reload or a restart. The stamp is written only after success. So a crash between
// writing a file and the restart loses nothing, and unchanged inputs restart nothing.
//
// The stamp alone records only the charm's own actions. Others write the same files and
// start the same units. So the stamp also has the times of the Files and, with a Unit, the
// started process. Files that were written later make the trigger due, unless the process
// is still the one that was started with equal inputs. A process that another program
// started later, with unchanged files, has read them too.
type Trigger struct {
	Name     string // names the stamp; one file name
	Inputs   [][]byte
	Files    []string // paths of the inputs that are files
	Unit     string   // the unit with the process that reads the inputs at its start; "" for none
	State    UnitState
	Op       string // "restart concourse-worker"
	Why      string // default "its inputs changed since it last ran"
	Disrupts string // see plan.Step
	Tolerate bool   // see plan.Step; the next run tries again
	// Adopt writes the stamp without running the command, because an earlier step of the
	// same run starts the unit with these inputs.
	Adopt bool
	Then  []host.Command
	Do    func(context.Context, host.Host) error // runs after Then; may be nil
}

// stamp records the command's last success.
type stamp struct {
	Inputs     string `json:"inputs"`               // hash of the inputs
	Written    string `json:"written,omitempty"`    // hash of the files' times
	Invocation string `json:"invocation,omitempty"` // of Unit, see UnitState
}

// Diff implements plan.Resource.
func (t Trigger) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	file := statefile.File[stamp]{Path: Stamp(t.Name), Mode: 0o600, Disposable: true}
	last, err := file.Read(h.Root)
	if err != nil {
		return nil, fmt.Errorf("cannot read stamp of %s: %w", t.Name, err)
	}
	now := stamp{Inputs: t.inputs(), Written: t.written(h.Root), Invocation: t.State.Invocation}
	sameProcess := t.Unit != "" && last.Invocation == now.Invocation
	if last.Inputs == now.Inputs && (sameProcess || last.Written == now.Written) {
		return nil, nil
	}
	step := plan.Step{Op: t.Op, Why: t.Why, Disrupts: t.Disrupts, Tolerate: t.Tolerate}
	switch {
	case step.Why != "":
	case !h.Exists(file.Path):
		step.Why = "not done since the machine started"
	case last.Inputs == now.Inputs:
		step.Why = "another program changed its files since it last ran"
	default:
		step.Why = "its inputs changed since it last ran"
	}
	if t.Adopt {
		step.Op, step.Disrupts = "note the inputs of "+t.Op, ""
		step.Why = "just started with them"
		t.Then, t.Do = nil, nil
	}
	step.Do = func(ctx context.Context) error {
		// Before the command, because it did not read files that are written while it runs.
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
		return file.Write(h.Root, now)
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

// written returns a hash of the files' times, or "" without files.
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

// NoStamps removes all stamps of triggers.
type NoStamps struct{ Why string }

// Diff implements plan.Resource.
func (s NoStamps) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	files, err := h.Glob(Stamp("*"))
	if err != nil {
		return nil, err
	}
	var p plan.Plan
	for _, f := range files {
		absent, err := Absent{Path: f, Why: s.Why}.Diff(ctx, h)
		if err != nil {
			return nil, err
		}
		p = append(p, absent...)
	}
	return p, nil
}
