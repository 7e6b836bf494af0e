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

// Diff implements plan.Resource.
func (n noPackages) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	do := func(ctx context.Context) error { return n.purge(ctx, h) }
	return plan.Plan{{Op: "purge PostgreSQL's packages", Why: purged, Tolerate: true, Do: do}}, nil
}

func (n noPackages) purge(ctx context.Context, h host.Host) error {
	clusters, err := h.Glob(clustersDir + "/*/*")
	if err != nil {
		return err
	}
	if len(clusters) > 0 {
		return fmt.Errorf("that would drop the cluster %s, which is not the CI's; they stay",
			strings.TrimPrefix(clusters[0], clustersDir+"/"))
	}
	apt := func(args ...string) host.Command {
		return host.Command{Argv: append([]string{"apt-get", "purge", "--yes"}, args...), Deadline: purgeTime,
			Env: []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}}
	}
	own, err := n.removable(ctx, h, func(names ...string) ([]string, error) {
		c := apt(append([]string{"--simulate"}, names...)...)
		c.ReadOnly = true
		out, err := h.Run(ctx, c)
		return resource.Removed(out), err
	})
	if err == nil && len(own) > 0 {
		_, err = h.Run(ctx, apt(own...))
	}
	if err != nil {
		return err
	}
	left, err := installed(h.Root, n.names)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("other packages need %s, or you installed it; it stays", strings.Join(left, ", "))
	}
	return err
}

// removable returns the packages that apt can purge without a package of others. simulate
// returns all packages that a purge removes.
func (n noPackages) removable(ctx context.Context, h host.Host,
	simulate func(names ...string) ([]string, error)) ([]string, error) {
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
	// A simulation for each package takes long, so the first is for all.
	need := func(names ...string) (bool, error) {
		all, err := simulate(names...)
		return slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(own, name) }), err
	}
	needed, err := need(own...)
	if err != nil || !needed {
		return own, err
	}
	var free []string
	for _, name := range own {
		needed, err := need(name)
		if err != nil {
			return nil, err
		}
		if !needed {
			free = append(free, name)
		}
	}
	return free, nil
}

// installed returns those of the packages that are installed.
func installed(r host.Root, names []string) ([]string, error) {
	have, err := resource.InstalledPackages(r)
	return slices.DeleteFunc(have, func(name string) bool { return !slices.Contains(names, name) }), err
}
