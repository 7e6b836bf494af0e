package cdi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"concourse-ci-machine/internal/agreed"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
)

// saved is where a description lies that was at Path before the charm's own.
// Container tools do not read files of that name.
const saved = Path + ".before-concourse"

const specLimit = 4 << 20 // bytes

// own reports whether the file at Path is the charm's: it names a GPU by
// its slot, or has the annotation that the charm's had before. There is no record that could be lost or outlive it.
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
		Devices []struct {
			Name        string
			Annotations map[string]string
		}
	}
	if json.Unmarshal(data, &spec) != nil {
		return true, false, nil
	}
	for _, d := range spec.Devices {
		if _, older := d.Annotations[agreed.PCIAnnotation]; older || agreed.PCIOf(d.Name) != "" {
			return true, true, nil
		}
	}
	return true, false, nil
}

// Keep moves a description by somebody else out of the way of the charm's own,
// to where Gone finds it.
type Keep struct{}

// Diff implements plan.Resource.
func (Keep) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	there, own, err := own(h.Root)
	if err != nil || !there || own {
		return nil, err
	}
	return plan.Plan{{Op: "move " + Path + " to " + saved, Why: "it is not the charm's", Do: func(context.Context) error {
		return os.Rename(h.Path(Path), h.Path(saved))
	}}}, nil
}

// Gone is no description of the charm's: that one is removed, and the one that
// was there before is put back. One that somebody else made stays.
type Gone struct{ Why string }

// Diff implements plan.Resource.
func (g Gone) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	there, own, err := own(h.Root)
	if err != nil || there && !own {
		return nil, err
	}
	if _, err := h.Lstat(saved); err == nil {
		// One rename does both, so that no run ends between the two.
		return plan.Plan{{Op: "put " + Path + " back as it was before", Why: g.Why, Do: func(context.Context) error {
			return os.Rename(h.Path(saved), h.Path(Path))
		}}}, nil
	}
	if !there {
		return nil, nil
	}
	return plan.Plan{{Op: "remove " + Path, Why: g.Why, Do: func(context.Context) error { return h.Remove(Path) }}}, nil
}
