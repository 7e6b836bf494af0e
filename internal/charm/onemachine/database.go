package onemachine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse/postgres"
)

// The PostgreSQL cluster of the machine. It is separate from clusters of other programs, and
// answers on a local socket only.
const (
	clusterName = "concourse"
	databaseFor = "concourse" // user and database
	socketDir   = "/var/run/postgresql"
	clustersDir = "/etc/postgresql"
	pgBinaries  = "/usr/lib/postgresql"

	// noMainCluster keeps Debian's package from making a cluster that nobody uses. It is
	// removed after the installation.
	noMainCluster = "/etc/postgresql-common/createcluster.d/concourse-ci-machine.conf"

	pgPackage    = "postgresql"
	postgresPort = 5432
	sqlTime      = 2 * time.Minute
	purgeTime    = 15 * time.Minute
)

// database holds the login of the machine's own database.
type database struct {
	Port     int    `json:"port"` // names the socket
	Password string `json:"password"`
}

// database returns the databag of PostgreSQL, or nil while the machine has none.
func (m *Model) database() map[string]string {
	if text, ok := m.options[databaseOption].(string); ok && text != "" {
		bag, _ := externalDatabase(text) // checked with the other options
		return bag
	}
	if db := m.state.Database; db != nil && db.Port != 0 {
		return map[string]string{"endpoints": fmt.Sprintf("%s:%d", socketDir, db.Port), "database": databaseFor,
			"username": databaseFor, "password": db.Password}
	}
	return nil
}

// externalDatabase returns the databag for the URL of a server.
func externalDatabase(text string) (map[string]string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgresql" && u.Scheme != "postgres" || u.Hostname() == "" || u.User == nil {
		return nil, errors.New("want postgresql://user:password@host:port/database") // the value may be secret
	}
	bag := map[string]string{"uris": text}
	switch mode := u.Query().Get("sslmode"); mode {
	case "", "disable":
	case "require":
		bag["tls"] = "true"
	default:
		return nil, fmt.Errorf("sslmode=%s is not supported; want disable or require", mode)
	}
	return bag, nil
}

// wantsDatabase reports whether the machine needs its own database.
func (m *Model) wantsDatabase() bool {
	text, _ := m.options[databaseOption].(string)
	return text == "" && m.options["mode"] != "worker"
}

// SetUpDatabase installs PostgreSQL and makes the cluster, the user and the database, as far
// as they are missing.
func (m *Model) SetUpDatabase(ctx context.Context) error {
	if m.state.Database == nil {
		m.state.Database = &database{Password: rand.Text()}
		if err := m.Save(); err != nil { // before anything uses the password
			return err
		}
	}
	if err := m.installPostgres(ctx); err != nil {
		return err
	}
	for _, stage := range []func(context.Context) ([]plan.Resource, error){m.configureCluster, m.makeDatabase} {
		want, err := stage(ctx)
		if err == nil {
			err = m.apply(ctx, want...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// apply brings resources to their state, and shows each step and each tolerated failure.
func (m *Model) apply(ctx context.Context, want ...plan.Resource) error {
	p, err := plan.Diff(ctx, m.Host, want...)
	if err != nil {
		return err
	}
	notes, err := p.Apply(ctx, m.Progress.Step)
	for _, n := range notes {
		m.Progress.Note(fmt.Sprintf("could not %s: %v", n.Step.Op, n.Err))
	}
	return err
}

// installPostgres installs the package, makes the cluster, and records the new packages. A
// run that was killed in between is finished by the next one.
func (m *Model) installPostgres(ctx context.Context) error {
	st, err := resource.ReadPackage(m.Host.Root, pgPackage)
	if err != nil {
		return err
	}
	var rs []plan.Resource
	if !st.Installed() {
		if len(m.state.Before) == 0 && len(m.state.Packages) == 0 {
			if m.state.Before, err = resource.InstalledPackages(m.Host.Root); err != nil {
				return err
			}
			if err := m.Save(); err != nil {
				return err
			}
		}
		rs = append(rs, resource.Dir{Path: path.Dir(path.Dir(noMainCluster)), Mode: 0o755},
			resource.Dir{Path: path.Dir(noMainCluster), Mode: 0o755},
			resource.File{Path: noMainCluster, Mode: 0o644, Data: []byte("create_main_cluster = false\n")})
	}
	rs = append(rs, resource.Package{Name: pgPackage}, cluster{},
		resource.Absent{Path: noMainCluster, Why: "PostgreSQL is installed"})
	if err := m.apply(ctx, rs...); err != nil || len(m.state.Before) == 0 {
		return err
	}
	now, err := resource.InstalledPackages(m.Host.Root)
	if err != nil {
		return err
	}
	m.state.Packages = slices.DeleteFunc(now, func(p string) bool { return slices.Contains(m.state.Before, p) })
	m.state.Before = nil
	return m.Save()
}

// cluster makes the PostgreSQL cluster.
type cluster struct{}

// Diff implements plan.Resource.
func (cluster) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if version, err := clusterVersion(h.Root); version != "" || err != nil {
		return nil, err
	}
	make := func(ctx context.Context) error {
		all, err := h.Glob(pgBinaries + "/*/bin/initdb")
		if err != nil || len(all) == 0 {
			return fmt.Errorf("cannot find PostgreSQL in %s: is the package %s complete? (%v)", pgBinaries, pgPackage, err)
		}
		version := path.Base(path.Dir(path.Dir(slices.MaxFunc(all, byVersion))))
		_, err = h.Run(ctx, host.Command{Argv: []string{"pg_createcluster", version, clusterName}, Deadline: sqlTime})
		return err
	}
	return plan.Plan{{Op: "make the PostgreSQL cluster " + clusterName, Why: "missing", Do: make}}, nil
}

// byVersion compares paths /usr/lib/postgresql/17/bin/initdb by their version.
func byVersion(a, b string) int {
	number := func(p string) int {
		n, _ := strconv.Atoi(path.Base(path.Dir(path.Dir(p))))
		return n
	}
	return number(a) - number(b)
}

// clusterVersion returns the PostgreSQL version of the cluster, or "" without a cluster.
func clusterVersion(r host.Root) (string, error) {
	found, err := r.Glob(clustersDir + "/*/" + clusterName)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return path.Base(path.Dir(found[len(found)-1])), nil
}

// configureCluster returns the cluster's files and its running server.
func (m *Model) configureCluster(ctx context.Context) ([]plan.Resource, error) {
	version, err := clusterVersion(m.Host.Root)
	if err != nil || version == "" {
		return nil, fmt.Errorf("cannot find the PostgreSQL cluster %s in %s: %v", clusterName, clustersDir, err)
	}
	dir := path.Join(clustersDir, version, clusterName)
	if m.state.Database.Port, err = clusterPort(m.Host.Root, dir); err != nil {
		return nil, err
	}
	if err := m.Save(); err != nil {
		return nil, err
	}
	unit := fmt.Sprintf("postgresql@%s-%s.service", version, clusterName)
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

// clusterPort reads the port that Debian's tool chose for the cluster.
func clusterPort(r host.Root, dir string) (int, error) {
	text, err := r.ReadText(path.Join(dir, "postgresql.conf"))
	if err != nil {
		return 0, fmt.Errorf("cannot read the port of the PostgreSQL cluster: %w", err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, "=")
		value, _, _ = strings.Cut(value, "#")
		if n, err := strconv.Atoi(strings.TrimSpace(value)); strings.TrimSpace(name) == "port" && err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("cannot find the port in %s/postgresql.conf", dir)
}

// makeDatabase returns the user and the database.
func (m *Model) makeDatabase(ctx context.Context) ([]plan.Resource, error) {
	db := *m.state.Database
	c := postgres.Config{Host: socketDir, Port: db.Port, User: databaseFor, Password: db.Password, Name: databaseFor,
		SSLMode: "disable"}
	if postgres.Ping(ctx, c) == nil {
		return nil, nil
	}
	return []plan.Resource{login{db}}, nil
}

// login makes the user and the database, and sets the user's password.
type login struct{ db database }

// Diff implements plan.Resource.
func (l login) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	return plan.Plan{{Op: "make the database " + databaseFor, Why: "it refuses the web's login",
		Do: func(ctx context.Context) error {
			sql := func(database, text string) error {
				_, err := h.Run(ctx, host.Command{Deadline: sqlTime, Stdin: []byte(text), Argv: []string{"runuser", "-u",
					"postgres", "--", "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--host=" + socketDir,
					"--port=" + strconv.Itoa(l.db.Port), "--dbname=" + database}})
				return err
			}
			// psql reads the password from its input: arguments are public.
			return sql("postgres", fmt.Sprintf(`SELECT 'CREATE ROLE %[1]s LOGIN' WHERE NOT EXISTS
  (SELECT FROM pg_roles WHERE rolname = '%[1]s') \gexec
ALTER ROLE %[1]s LOGIN PASSWORD '%[2]s';
SELECT 'CREATE DATABASE %[1]s OWNER %[1]s' WHERE NOT EXISTS
  (SELECT FROM pg_database WHERE datname = '%[1]s') \gexec
`, databaseFor, l.db.Password))
		}}}, nil
}

// RemoveDatabase removes the cluster with its data, and the packages that SetUpDatabase
// installed.
func (m *Model) RemoveDatabase(ctx context.Context) error {
	version, err := clusterVersion(m.Host.Root)
	if err != nil {
		return err
	}
	var rs []plan.Resource
	if version != "" && m.state.Database != nil {
		rs = append(rs, dropCluster{version})
	}
	rs = append(rs, resource.Absent{Path: noMainCluster, Why: purged})
	if len(m.state.Packages) > 0 {
		rs = append(rs, noPackages{m.state.Packages})
	}
	return m.apply(ctx, rs...)
}

// purged is the reason of each step of Purge.
const purged = "the machine is purged"

// noPackages purges packages. It keeps all of them if another package needs one.
type noPackages struct{ names []string }

// Diff implements plan.Resource.
func (n noPackages) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	apt := func(args ...string) host.Command {
		return host.Command{Argv: append(append([]string{"apt-get", "purge", "--yes"}, args...), n.names...),
			Deadline: purgeTime, Env: []string{"DEBIAN_FRONTEND=noninteractive"}}
	}
	return plan.Plan{{Op: "purge PostgreSQL's packages", Why: purged, Tolerate: true, Do: func(ctx context.Context) error {
		simulate := apt("--simulate")
		simulate.ReadOnly = true
		out, err := h.Run(ctx, simulate)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) > 1 && (f[0] == "Remv" || f[0] == "Purg") && !slices.Contains(n.names, f[1]) {
				return fmt.Errorf("cannot purge PostgreSQL: %s needs it; it stays", f[1])
			}
		}
		_, err = h.Run(ctx, apt())
		return err
	}}}, nil
}

// dropCluster removes the PostgreSQL cluster with its data.
type dropCluster struct{ version string }

// Diff implements plan.Resource.
func (d dropCluster) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	return plan.Plan{{Op: "drop the PostgreSQL cluster " + clusterName, Why: purged,
		Do: func(ctx context.Context) error {
			_, err := h.Run(ctx, host.Command{Argv: []string{"pg_dropcluster", "--stop", d.version, clusterName},
				Deadline: sqlTime})
			if err != nil {
				return err
			}
			// The tool keeps files that it does not know.
			if err := os.RemoveAll(h.Path(path.Join(clustersDir, d.version, clusterName))); err != nil {
				return err
			}
			if left, err := h.ReadDir(path.Join(clustersDir, d.version)); err == nil && len(left) == 0 {
				return h.Remove(path.Join(clustersDir, d.version))
			}
			return nil
		}}}, nil
}
