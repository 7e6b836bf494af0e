package onemachine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

const (
	pgPackage = "postgresql"
	purgeTime = 15 * time.Minute

	// noMainCluster keeps Debian's package from making a cluster that nobody uses. It is
	// removed after the installation.
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
	have, err := resource.InstalledPackages(h.Root)
	if err != nil {
		return err
	}
	old := slices.DeleteFunc(o.m.state.Packages, func(name string) bool { return !slices.Contains(have, name) })
	o.m.state.Packages = slices.Compact(slices.Sorted(slices.Values(append(old, added...))))
	return o.m.Save()
}

// noPackages purges the packages that ownPackages recorded. A package stays that another one
// needs, and one that the operator asked apt for. All stay while the machine has a cluster of
// another program, because their scripts drop every cluster.
type noPackages struct{ names []string }

// Diff implements plan.Resource.
func (n noPackages) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	return plan.Plan{{Op: "purge PostgreSQL's packages", Why: purged, Tolerate: true, Do: func(ctx context.Context) error {
		return n.purge(ctx, h)
	}}}, nil
}

func (n noPackages) purge(ctx context.Context, h host.Host) error {
	clusters, err := h.Glob(clustersDir + "/*/*")
	if err != nil {
		return err
	}
	if len(clusters) > 0 {
		return fmt.Errorf("cannot purge PostgreSQL: that would drop the cluster %s, which is not the CI's; it stays",
			strings.TrimPrefix(clusters[0], clustersDir+"/"))
	}
	apt := func(args ...string) host.Command {
		return host.Command{Argv: append([]string{"apt-get", "purge", "--yes"}, args...), Deadline: purgeTime,
			Env: []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}}
	}
	simulate := func(args ...string) ([]string, error) {
		c := apt(append([]string{"--simulate"}, args...)...)
		c.ReadOnly = true
		out, err := h.Run(ctx, c)
		return resource.Removed(out), err
	}
	// apt decides what nothing needs any more without PostgreSQL.
	unneeded, err := simulate("--auto-remove", "-o", "APT::AutoRemove::SuggestsImportant=false", pgPackage)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return !slices.Contains(unneeded, name) })
	if len(own) == 0 { // a purge that was killed after it
		return nil
	}
	all, err := simulate(own...)
	if err != nil {
		return err
	}
	for _, name := range all {
		if !slices.Contains(own, name) {
			return fmt.Errorf("cannot purge PostgreSQL: %s needs it; it stays", name)
		}
	}
	if _, err = h.Run(ctx, apt(own...)); err != nil {
		return err
	}
	left, err := resource.InstalledPackages(h.Root)
	left = slices.DeleteFunc(left, func(name string) bool { return !slices.Contains(n.names, name) })
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("other packages need %s, or you installed it; it stays", strings.Join(left, ", "))
	}
	return err
}
