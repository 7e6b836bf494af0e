package onemachine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

const (
	pgPackage = "postgresql"

	// noMainCluster prevents Debian's package from making an unused cluster. It is removed
	// after the installation.
	noMainCluster = "/etc/postgresql-common/createcluster.d/concourse-ci-machine.conf"
)

// ownPackages installs PostgreSQL. The names of the packages that apt adds for it are recorded
// right before.
type ownPackages struct{ m *Model }

// Diff implements plan.Resource.
func (o ownPackages) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	pkg := resource.Package{Name: pgPackage}
	p, err := pkg.Diff(ctx, h)
	if err != nil || len(p) == 0 {
		return nil, err
	}
	install := &p[len(p)-1]
	do := install.Do
	install.Do = func(ctx context.Context) error {
		added, err := pkg.Added(ctx, h)
		if err == nil {
			err = o.record(h, added)
		}
		if err == nil {
			err = h.MkdirAll(path.Dir(noMainCluster), 0o755)
		}
		if err == nil {
			err = h.WriteFile(noMainCluster, []byte("create_main_cluster = false\n"), 0o644)
		}
		if err != nil {
			return err
		}
		// After a failure the operator may install what is missing.
		return errors.Join(do(ctx), h.Remove(noMainCluster), o.record(h, nil))
	}
	return p, nil
}

// record adds packages to the record, and drops those that a failed run did not install.
func (o ownPackages) record(h host.Host, added []string) error {
	old, err := installed(h.Root, o.m.state.Packages)
	if err != nil {
		return err
	}
	o.m.state.Packages = slices.Compact(slices.Sorted(slices.Values(append(old, added...))))
	return o.m.Save()
}

// noPackages purges the packages that ownPackages recorded. A package stays if another one needs
// it, or if the operator installed it, too. All stay while the machine has a cluster of another
// program, because their scripts drop every cluster.
type noPackages struct{ names []string }

// Diff implements plan.Resource. A failure of apt ends the purge, because its end removes
// the record.
func (n noPackages) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	return plan.Plan{{Op: "purge PostgreSQL's packages", Why: purged, Do: func(ctx context.Context) error {
		return n.purge(ctx, h)
	}}, {Op: "purge all of PostgreSQL's packages", Why: purged, Tolerate: true, Do: func(context.Context) error {
		return n.reportRest(h)
	}}}, nil
}

func (n noPackages) purge(ctx context.Context, h host.Host) error {
	others, err := h.Glob(clustersDir + "/*/*")
	if err != nil || len(others) > 0 {
		return err
	}
	own, err := n.removable(ctx, h)
	if err == nil && len(own) > 0 {
		err = resource.PurgePackages(ctx, h, own...)
	}
	if err != nil {
		return fmt.Errorf("%w; repair apt, then run again: sudo concourse-ci-machine purge", err)
	}
	return nil
}

// reportRest returns an error that names the packages that stay, and why.
func (n noPackages) reportRest(h host.Host) error {
	others, err := h.Glob(clustersDir + "/*/*")
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fmt.Errorf("that would drop the cluster %s, which is not the CI's; they stay",
			strings.TrimPrefix(others[0], clustersDir+"/"))
	}
	left, err := installed(h.Root, n.names)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("other packages need %s, or you installed it; it stays", strings.Join(left, ", "))
	}
	return err
}

// removable returns the packages that apt can purge together without a package of others.
func (n noPackages) removable(ctx context.Context, h host.Host) ([]string, error) {
	own, err := installed(h.Root, n.names)
	if err != nil {
		return nil, err
	}
	out, err := h.Run(ctx, host.Command{Argv: []string{"apt-mark", "showmanual"}, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	manual := strings.Fields(string(out))
	own = slices.DeleteFunc(own, func(name string) bool { return name != pgPackage && slices.Contains(manual, name) })
	// apt-get --simulate takes long, so the first is for all.
	needed := func(names []string) (bool, error) {
		removed, err := resource.SimulatePurge(ctx, h, names...)
		return slices.ContainsFunc(removed, func(name string) bool { return !slices.Contains(own, name) }), err
	}
	if all, err := needed(own); err != nil || !all {
		return own, err
	}
	var free []string
	for _, name := range own {
		more := append(slices.Clone(free), name) // together, because another package may need one of two
		kept, err := needed(more)
		if err != nil {
			return nil, err
		}
		if !kept {
			free = more
		}
	}
	return free, nil
}

// installed returns the packages in names that are installed.
func installed(r host.Root, names []string) ([]string, error) {
	have, err := resource.InstalledPackages(r)
	return slices.DeleteFunc(have, func(name string) bool { return !slices.Contains(names, name) }), err
}
