package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// OwnedFile has the names of the packages that the charm installed: those that were missing
// when it began to install them. Files need no such list, because their names or contents
// identify them as the charm's.
const OwnedFile = wellknown.StateDir + "/installed-packages.json"

type owned struct {
	Packages []string `json:"packages"`
}

// ownedFile declares OwnedFile. If it is damaged, no package is removed, which is the
// smaller harm.
var ownedFile = statefile.File[owned]{Path: OwnedFile, Mode: 0o600, Disposable: true}

func readOwned(r host.Root) (owned, error) {
	b, err := ownedFile.Read(r)
	if err != nil {
		err = fmt.Errorf("cannot read the list of installed packages: %w", err)
	}
	return b, err
}

func (b owned) write(r host.Root) error {
	if len(b.Packages) == 0 {
		return ownedFile.Remove(r)
	}
	if err := ownedFile.Write(r, b); err != nil {
		return fmt.Errorf("cannot write the list of installed packages: %w", err)
	}
	return nil
}

// OwnedPackage describes a package that the charm removes again with RemoveOwned, unless it
// was installed before. It is recorded right before its installation. The record
// is dropped if apt fails and the package is still missing.
type OwnedPackage struct{ Package }

// Diff implements plan.Resource.
func (b OwnedPackage) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := b.Package.Diff(ctx, h)
	if err != nil || len(p) == 0 {
		return p, err
	}
	st, err := ReadPackage(h.Root, b.Name)
	if err != nil {
		return nil, err
	}
	if st.Installed() || st.Broken() {
		return p, nil
	}
	install := &p[len(p)-1] // the step before it may fail repeatedly
	do := install.Do
	install.Do = func(ctx context.Context) error {
		now, err := readOwned(h.Root)
		if err != nil {
			return err
		}
		if !slices.Contains(now.Packages, b.Name) {
			now.Packages = append(now.Packages, b.Name)
		}
		if err := now.write(h.Root); err != nil {
			return err
		}
		err = do(ctx)
		if st, readErr := ReadPackage(h.Root, b.Name); err != nil && readErr == nil && !st.Installed() && !st.Broken() {
			err = errors.Join(err, forgetOwned(h.Root, b.Name)) // the operator may install it now
		}
		return err
	}
	return p, nil
}

// forgetOwned removes a package from the record.
func forgetOwned(r host.Root, name string) error {
	now, err := readOwned(r)
	if err != nil {
		return err
	}
	now.Packages = slices.DeleteFunc(now.Packages, func(n string) bool { return n == name })
	return now.write(r)
}

// IsOwned reports whether the charm installed a package.
func IsOwned(r host.Root, name string) (bool, error) {
	b, err := readOwned(r)
	return slices.Contains(b.Packages, name), err
}

// RemoveOwned removes a package that the charm installed. It keeps other packages, and a
// package that others now depend on, which is then no longer the charm's. A failure is
// tolerated, and the next run tries again.
type RemoveOwned struct {
	Name     string
	Why      string     // "compute-runtime is none"
	Preserve *Preserved // as in Package
}

const removeLimit = 15 * time.Minute // longer than the wait for dpkg's lock

// PurgePackages removes packages with their settings. It waits for other users of apt.
func PurgePackages(ctx context.Context, h host.Host, names ...string) error {
	return runApt(ctx, h, removal("purge", names...))
}

// SimulatePurge returns the packages that PurgePackages would remove.
func SimulatePurge(ctx context.Context, h host.Host, names ...string) ([]string, error) {
	c := removal("purge", append([]string{"--simulate"}, names...)...)
	c.ReadOnly = true
	out, err := h.Run(ctx, c)
	return removed(out), err
}

func removal(verb string, args ...string) host.Command {
	argv := []string{"apt-get", verb, "--yes", "-o", fmt.Sprintf("DPkg::Lock::Timeout=%d", int(lockTimeout.Seconds()))}
	return host.Command{Argv: append(argv, args...), Deadline: removeLimit, Env: Package{}.env()}
}

// Diff implements plan.Resource.
func (t RemoveOwned) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	have, err := readOwned(h.Root)
	if err != nil || !slices.Contains(have.Packages, t.Name) {
		return nil, err
	}
	st, err := ReadPackage(h.Root, t.Name)
	if err != nil {
		return nil, err
	}
	dropRecord := func() error { return forgetOwned(h.Root, t.Name) }
	if !st.Installed() && !st.Broken() {
		return plan.Plan{{Op: "forget that " + t.Name + " was the charm's", Why: "it is not installed any more",
			Do: func(context.Context) error { return dropRecord() }}}, nil
	}
	remove := plan.Step{Op: "remove package " + t.Name, Why: t.Why, Tolerate: true,
		Do: func(ctx context.Context) error {
			others, err := t.others(ctx, h)
			if err != nil {
				return err
			}
			if len(others) > 0 {
				return errors.Join(fmt.Errorf("cannot remove package %s: %s needs it; it stays", t.Name,
					strings.Join(others, ", ")), dropRecord())
			}
			if err := runApt(ctx, h, t.command()); err != nil {
				return err
			}
			return dropRecord()
		}}
	return plan.Plan{t.Preserve.wrap(h, remove)}, nil
}

func (t RemoveOwned) command(flags ...string) host.Command {
	return removal("remove", append(flags, t.Name)...)
}

func (t RemoveOwned) simulation() host.Command {
	c := t.command("--simulate")
	c.ReadOnly = true
	return c
}

// others returns the packages that would be removed too and are not the charm's.
func (t RemoveOwned) others(ctx context.Context, h host.Host) (names []string, err error) {
	own, err := readOwned(h.Root)
	if err != nil {
		return nil, err
	}
	out, err := h.Run(ctx, t.simulation())
	return slices.DeleteFunc(removed(out), func(name string) bool { return slices.Contains(own.Packages, name) }), err
}
