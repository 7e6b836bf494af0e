package cdi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// saved is the place of a foreign description that the charm replaced at Path. Container
// tools ignore files of that name. An earlier one has a number appended.
const saved = Path + ".before-concourse"

const specLimit = 4 << 20 // bytes

// own reports whether the charm wrote the file at Path: it names a GPU by its slot. A separate
// record could be lost or outlive the file.
func own(r host.Root) (there, own bool, err error) {
	st, err := r.Lstat(Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("cannot look at %s: %w", Path, err)
	case !st.Mode().IsRegular() || st.Size() > specLimit:
		return true, false, nil
	}
	data, err := r.ReadFile(Path)
	if err != nil {
		return true, false, fmt.Errorf("cannot look at %s: %w", Path, err)
	}
	var spec struct {
		Devices []struct{ Name string }
	}
	if json.Unmarshal(data, &spec) != nil {
		return true, false, nil
	}
	for _, d := range spec.Devices {
		if pci.OfSlot(d.Name) != "" {
			return true, true, nil
		}
	}
	return true, false, nil
}

// Foreign reports whether another program wrote the description.
func Foreign(r host.Root) (bool, error) {
	there, own, err := own(r)
	return there && !own, err
}

// Keep moves a foreign description to saved, from which Absent restores it. Descriptions that
// were moved earlier stay, too.
type Keep struct{}

// Diff implements plan.Resource.
func (Keep) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	there, own, err := own(h.Root)
	if err != nil || !there || own {
		return nil, err
	}
	move := func(from, to, why string) plan.Step {
		return plan.Step{Op: "move " + from + " to " + to, Why: why, Do: func(context.Context) error {
			return os.Rename(h.Path(from), h.Path(to))
		}}
	}
	p := plan.Plan{move(Path, saved, "it is not the charm's")}
	earlier, err := earlierSaved(h.Root)
	if err != nil || earlier == "" {
		return p, err
	}
	return plan.Plan{move(saved, earlier, "it is kept, too"), p[0]}, nil
}

// earlierSaved returns a new name for the description at saved; "" if there is none, or if
// another file has the same content.
func earlierSaved(r host.Root) (string, error) {
	if _, err := r.Lstat(saved); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("cannot look at %s: %w", saved, err)
	}
	data, err := r.ReadFile(saved)
	name := Path
	for n := 1; ; n++ {
		other, otherErr := r.ReadFile(name)
		switch {
		case errors.Is(otherErr, fs.ErrNotExist):
			return name, nil
		case err == nil && otherErr == nil && bytes.Equal(data, other):
			return "", nil // its content is stored there
		}
		name = fmt.Sprintf("%s.%d", saved, n)
	}
}

// Absent removes the charm's description and restores the previous one. A foreign description
// stays.
type Absent struct{ Why string }

// Diff implements plan.Resource.
func (a Absent) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	there, own, err := own(h.Root)
	if err != nil || there && !own {
		return nil, err
	}
	if _, err := h.Lstat(saved); err == nil {
		// One rename does both, so that an interrupted run leaves no intermediate state.
		return plan.Plan{{Op: "put " + Path + " back as it was before", Why: a.Why, Do: func(context.Context) error {
			return os.Rename(h.Path(saved), h.Path(Path))
		}}}, nil
	}
	if !there {
		return nil, nil
	}
	return plan.Plan{{Op: "remove " + Path, Why: a.Why, Do: func(context.Context) error { return h.Remove(Path) }}}, nil
}
