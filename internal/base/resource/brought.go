package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/wellknown"
)

// BroughtFile names the packages that the charm brought: those that were not
// installed when it began to install them. Files need no such list; they have
// names or a mark of the charm's own.
const BroughtFile = wellknown.StateDir + "/brought.json"

type brought struct {
	Packages []string `json:"packages"`
}

// readBrought takes a damaged file for an empty one: nothing is removed then,
// which is the smaller harm.
func readBrought(r host.Root) (b brought, err error) {
	data, err := r.ReadFile(BroughtFile)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, fmt.Errorf("cannot read what the charm brought: %w", err)
	}
	if json.Unmarshal(data, &b) != nil {
		b = brought{}
	}
	return b, nil
}

func (b brought) write(r host.Root) error {
	if len(b.Packages) == 0 {
		return r.Remove(BroughtFile)
	}
	data, err := json.Marshal(b)
	if err == nil {
		err = r.WriteFile(BroughtFile, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot note what the charm brings: %w", err)
	}
	return nil
}

// Brought is a package that the charm takes away again (TakeBack), unless it was
// there before. It is noted before it is installed: a crash in between leaves a
// note of a package that is not there, which means nothing.
type Brought struct{ Package }

// Diff implements plan.Resource.
func (b Brought) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := b.Package.Diff(ctx, h)
	if err != nil || len(p) == 0 {
		return p, err
	}
	st, err := ReadPackage(h.Root, b.Name)
	if err != nil {
		return nil, err
	}
	have, err := readBrought(h.Root)
	if err != nil {
		return nil, err
	}
	if st.Installed() || st.Broken() || slices.Contains(have.Packages, b.Name) {
		return p, nil
	}
	install := &p[len(p)-1] // what comes before it may fail for long
	do := install.Do
	install.Do = func(ctx context.Context) error {
		now, err := readBrought(h.Root)
		if err != nil {
			return err
		}
		now.Packages = append(now.Packages, b.Name)
		if err := now.write(h.Root); err != nil {
			return err
		}
		return do(ctx)
	}
	return p, nil
}

// IsBrought reports whether the charm brought a package.
func IsBrought(r host.Root, name string) (bool, error) {
	b, err := readBrought(r)
	return slices.Contains(b.Packages, name), err
}

// TakeBack removes a package that the charm brought, and leaves any other, also
// one that other packages have come to need: that is not the charm's any more. A
// failure is tolerated; the next run tries again.
type TakeBack struct {
	Name string
	Why  string // "compute-runtime is none"
	Kept *Kept  // as of Package
}

const removeLimit = 15 * time.Minute // more than the wait for dpkg's lock

// Diff implements plan.Resource.
func (t TakeBack) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	have, err := readBrought(h.Root)
	if err != nil || !slices.Contains(have.Packages, t.Name) {
		return nil, err
	}
	st, err := ReadPackage(h.Root, t.Name)
	if err != nil {
		return nil, err
	}
	forget := func() error {
		now, err := readBrought(h.Root)
		if err != nil {
			return err
		}
		now.Packages = slices.DeleteFunc(now.Packages, func(name string) bool { return name == t.Name })
		return now.write(h.Root)
	}
	if !st.Installed() && !st.Broken() {
		return plan.Plan{{Op: "forget that " + t.Name + " was the charm's", Why: "it is not installed any more",
			Do: func(context.Context) error { return forget() }}}, nil
	}
	remove := plan.Step{Op: "remove package " + t.Name, Why: t.Why, Tolerate: true, Do: func(ctx context.Context) error {
		others, err := t.others(ctx, h)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			return errors.Join(fmt.Errorf("cannot remove package %s: %s needs it; it stays", t.Name, strings.Join(others, ", ")), forget())
		}
		if _, err := h.Run(ctx, t.command(false)); err != nil {
			return err
		}
		return forget()
	}}
	return plan.Plan{t.Kept.around(h, remove)}, nil
}

func (t TakeBack) command(simulate bool) host.Command {
	c := host.Command{Argv: []string{"apt-get", "remove", "--yes", "-o", fmt.Sprintf("DPkg::Lock::Timeout=%d", int(lockTimeout.Seconds()))},
		Deadline: removeLimit, Env: Package{}.env(), ReadOnly: simulate}
	if simulate {
		c.Argv = append(c.Argv, "--simulate")
	}
	c.Argv = append(c.Argv, t.Name)
	return c
}

// others are the packages that would go with it and are not the charm's: apt's simulation has a line
// "Remv name [version]" for each.
func (t TakeBack) others(ctx context.Context, h host.Host) (names []string, err error) {
	own, err := readBrought(h.Root)
	if err != nil {
		return nil, err
	}
	out, err := h.Run(ctx, t.command(true))
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Remv" && !slices.Contains(own.Packages, f[1]) {
			names = append(names, f[1])
		}
	}
	return names, err
}
