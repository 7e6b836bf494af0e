package onemachine

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// The PostgreSQL cluster of the machine. It is separate from clusters of other programs, and
// answers on a local socket only.
const (
	socketDir   = "/var/run/postgresql"
	clustersDir = "/etc/postgresql"
	pgBinaries  = "/usr/lib/postgresql"

	// clusterLock is held while the cluster is made. That goes on if this program is killed.
	clusterLock = wellknown.LockDir + "/cluster"
)

// newClusterName returns a name that no other program uses. So a cluster of that name was
// made here, also after PostgreSQL's upgrade to another version.
func newClusterName() string { return "concourse_" + strings.ToLower(rand.Text()[:8]) }

// clusterDirs returns the folders of a cluster's configuration, the newest version last.
func clusterDirs(r host.Root, name string) ([]string, error) {
	found, err := r.Glob(clustersDir + "/*/" + name)
	slices.SortFunc(found, func(a, b string) int { return byVersion(path.Dir(a), path.Dir(b)) })
	return found, err
}

// byVersion compares folders that are named after a version of PostgreSQL.
func byVersion(a, b string) int {
	number := func(p string) int {
		n, _ := strconv.Atoi(path.Base(p))
		return n
	}
	return number(a) - number(b)
}

// cluster makes the PostgreSQL cluster of the machine. Once it is made, it may have data,
// and only Purge removes it.
type cluster struct {
	name string
	made bool
}

// Diff implements plan.Resource.
func (c cluster) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	why, err := c.missing(h.Root)
	if err != nil || why == "" {
		return nil, err
	}
	return plan.Plan{{Op: "make the PostgreSQL cluster " + c.name, Why: why, Do: func(ctx context.Context) error {
		return c.make(ctx, h)
	}}}, nil
}

// missing returns why the cluster must be made, or "". Debian's tool writes its port at the
// end, so one that was never complete has none.
func (c cluster) missing(r host.Root) (string, error) {
	dirs, err := clusterDirs(r, c.name)
	if err != nil || len(dirs) == 0 {
		return "missing", err
	}
	if c.made {
		return "", nil
	}
	if _, err := clusterPort(r, dirs[len(dirs)-1]); err != nil {
		return "incomplete", nil
	}
	return "", nil
}

// make makes the cluster, after it removed an incomplete one, which has no data yet.
func (c cluster) make(ctx context.Context, h host.Host) error {
	locked := func(argv ...string) error {
		_, err := h.Run(ctx, host.Command{Argv: append([]string{"flock", clusterLock}, argv...), Deadline: sqlTime})
		return err
	}
	if err := locked("true"); err != nil { // wait for a run that was killed
		return err
	}
	if why, err := c.missing(h.Root); err != nil || why == "" {
		return err
	}
	if err := c.drop(ctx, h); err != nil {
		return err
	}
	all, err := h.Glob(pgBinaries + "/*/bin/initdb")
	if err != nil || len(all) == 0 {
		return fmt.Errorf("cannot find PostgreSQL in %s: is the package %s complete? (%v)", pgBinaries, pgPackage, err)
	}
	for i := range all {
		all[i] = path.Dir(path.Dir(all[i]))
	}
	return locked("pg_createcluster", path.Base(slices.MaxFunc(all, byVersion)), c.name)
}

// drop removes the cluster with its data, in all versions of PostgreSQL: the operator may have
// upgraded it.
func (c cluster) drop(ctx context.Context, h host.Host) error {
	dirs, err := clusterDirs(h.Root, c.name)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		above := path.Dir(dir)
		if _, err := h.Run(ctx, host.Command{Argv: []string{"pg_dropcluster", "--stop", path.Base(above), c.name},
			Deadline: sqlTime}); err != nil {
			return err
		}
		// The tool keeps files that it does not know.
		if err := os.RemoveAll(h.Path(dir)); err != nil {
			return err
		}
		if left, err := h.ReadDir(above); err == nil && len(left) == 0 {
			if err := h.Remove(above); err != nil {
				return err
			}
		}
	}
	return nil
}

// noCluster removes the cluster of the machine.
type noCluster struct{ cluster }

// Diff implements plan.Resource.
func (n noCluster) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	dirs, err := clusterDirs(h.Root, n.name)
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	return plan.Plan{{Op: "drop the PostgreSQL cluster " + n.name, Why: purged, Do: func(ctx context.Context) error {
		return n.drop(ctx, h)
	}}}, nil
}

// configureCluster returns the cluster's files and its running server.
func (m *Model) configureCluster(ctx context.Context) ([]plan.Resource, error) {
	db := m.state.Database
	dirs, err := clusterDirs(m.Host.Root, db.Cluster)
	if err != nil || len(dirs) == 0 {
		return nil, fmt.Errorf("cannot find the PostgreSQL cluster %s in %s: %v", db.Cluster, clustersDir, err)
	}
	dir := dirs[len(dirs)-1]
	if db.Port, err = clusterPort(m.Host.Root, dir); err != nil {
		return nil, err
	}
	if err := m.Save(); err != nil {
		return nil, err
	}
	unit := fmt.Sprintf("postgresql@%s-%s.service", path.Base(path.Dir(dir)), db.Cluster)
	units, err := resource.ShowUnits(ctx, m.Host, unit)
	if err != nil {
		return nil, err
	}
	conf := resource.File{Path: path.Join(dir, "conf.d/concourse-ci-machine.conf"), Mode: 0o644, Owner: "postgres",
		Data: []byte("# Written by concourse-ci-machine: this cluster answers on its local socket only.\n" +
			"listen_addresses = ''\nunix_socket_directories = '" + socketDir + "'\n")}
	access := resource.File{Path: path.Join(dir, "pg_hba.conf"), Mode: 0o640, Owner: "postgres",
		Data: []byte("# Written by concourse-ci-machine.\nlocal all postgres peer\n" +
			"local " + databaseFor + " " + databaseFor + " scram-sha-256\n")}
	state := units[unit]
	return []plan.Resource{conf, access,
		startedUnit{unit, state},
		resource.Trigger{Name: "restart-postgresql", Inputs: [][]byte{conf.Data, access.Data},
			Files: []string{conf.Path, access.Path}, Unit: unit, State: state, Op: "restart " + unit,
			Adopt: !state.Running(), Then: []host.Command{resource.Systemctl("restart", unit)}}}, nil
}

// startedUnit starts a unit. Debian's own unit enables all clusters, so it is not enabled.
type startedUnit struct {
	unit  string
	state resource.UnitState
}

// Diff implements plan.Resource.
func (s startedUnit) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if s.state.Running() {
		return nil, nil
	}
	return plan.Plan{{Op: "start " + s.unit, Why: "not running", Do: func(ctx context.Context) error {
		_, err := h.Run(ctx, resource.Systemctl("start", s.unit))
		return err
	}}}, nil
}

// portLine matches a setting of the port. PostgreSQL reads its name in any case, does not
// require the "=", and accepts quotes.
var portLine = lazyregexp.New(`(?im)^\s*port(?:\s*=\s*|\s+)'?([0-9]+)'?\s*(?:#|$)`)

// clusterPort reads the port that Debian's tool chose for the cluster. The last setting
// applies.
func clusterPort(r host.Root, dir string) (int, error) {
	text, err := r.ReadText(path.Join(dir, "postgresql.conf"))
	if err != nil {
		return 0, fmt.Errorf("cannot read the port of the PostgreSQL cluster: %w", err)
	}
	all := portLine().FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return 0, fmt.Errorf("cannot find the port in %s/postgresql.conf", dir)
	}
	return strconv.Atoi(all[len(all)-1][1])
}
