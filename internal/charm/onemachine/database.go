package onemachine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
)

const (
	databaseFor  = "concourse" // user and database
	postgresPort = 5432
	sqlTime      = 2 * time.Minute
)

// database holds the login of the machine's own database.
type database struct {
	Cluster  string `json:"cluster"` // recorded before it is made; no other program uses the name
	Port     int    `json:"port"`    // names the socket; 0 until the cluster is there
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
		return nil, fmt.Errorf("sslmode=%.40q is not supported; want disable or require", mode)
	}
	if _, complete, problems := relation.ParseDatabase(bag, nil, nil); !complete {
		return nil, errors.New(strings.Join(append([]string{"want postgresql://user:password@host:port/database"},
			problems...), "; ")) // they have no password
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
		m.state.Database = &database{Cluster: newClusterName(), Password: rand.Text()}
		if err := m.Save(); err != nil { // before anything uses them
			return err
		}
	}
	if err := m.apply(ctx, ownPackages{m}, resource.Absent{Path: noMainCluster, Why: "PostgreSQL is installed"},
		cluster{name: m.state.Database.Cluster, made: m.state.Database.Port != 0}); err != nil {
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
				_, err := h.Run(ctx, host.Command{Deadline: sqlTime, Stdin: []byte(text), Argv: []string{
					"runuser", "-u", "postgres", "--", "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1",
					"--host=" + socketDir, "--port=" + strconv.Itoa(l.db.Port), "--dbname=" + database}})
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
	var rs []plan.Resource
	if m.state.Database != nil {
		rs = append(rs, noCluster{cluster{name: m.state.Database.Cluster}})
	}
	rs = append(rs, resource.Absent{Path: noMainCluster, Why: purged})
	if len(m.state.Packages) > 0 {
		rs = append(rs, noPackages{m.state.Packages})
	}
	return m.apply(ctx, rs...)
}
