package concourse

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// fakeDatabase answers as `concourse migrate` 8.2.5 does: it reports success
// for versions that it does not know.
type fakeDatabase struct {
	current   string
	supported int
	lands     int // end of the migration, 0: as it should
	fails     string
	commands  []host.Command
}

const fakeRelease = "/var/lib/concourse/releases/x"

func (d *fakeDatabase) machine(t testing.TB) host.Host {
	return host.Host{Root: "/", Clock: hosttest.Clock{T: hosttest.Now}, Runner: d.at(hosttest.NewRunner(t), fakeRelease)}
}

// at lets a release answer.
func (d *fakeDatabase) at(r *hosttest.Runner, release string) *hosttest.Runner {
	return r.On(release+"/bin/concourse migrate", func(c host.Command) (string, error) {
		d.commands = append(d.commands, c)
		fail := func(text string) (string, error) {
			return "", &host.CommandError{Argv: c.Argv, Code: 1, Stderr: "error: " + text, Err: fmt.Errorf("exit status 1")}
		}
		flag, value, _ := strings.Cut(c.Argv[2], "=")
		switch {
		case d.fails != "":
			return fail(d.fails)
		case flag == "--supported-db-version":
			return fmt.Sprintf("%d\n", d.supported), nil
		case flag == "--current-db-version" && d.current == "":
			return fail(`ERROR: relation "migrations_history" does not exist (SQLSTATE 42P01)`)
		case flag == "--current-db-version":
			return d.current + "\n", nil
		case d.lands != 0:
			d.current = fmt.Sprint(d.lands)
		default:
			d.current = value
		}
		return "Successfully migrated to version: " + value + "\n", nil
	})
}

func database() WebDatabase {
	return WebDatabase{Host: "10.0.0.3", Port: 5432, User: "u", Password: "hunter2", Name: "concourse", SSLMode: "require"}
}

func TestDatabaseVersions(t *testing.T) {
	for name, c := range map[string]struct {
		db              fakeDatabase
		current, supply int
		err             string
	}{
		"in use":    {fakeDatabase{current: "1", supported: 2}, 1, 2, ""},
		"unused":    {fakeDatabase{supported: 2}, 0, 2, ""},
		"newer":     {fakeDatabase{current: "3", supported: 2}, 3, 2, ""},
		"no answer": {fakeDatabase{fails: "dial tcp: refused"}, 0, 0, "cannot ask " + fakeRelease + " for the database version it supports: "},
		"gibberish": {fakeDatabase{current: "x", supported: 2}, 0, 0, `cannot read the version of the database: "x" is not a version`},
	} {
		current, supported, err := DatabaseVersions(context.Background(), c.db.machine(t), fakeRelease, database(), nil)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, []int{c.current, c.supply}, []int{current, supported}, name)
	}
}

// A release that lacks a migration takes it for done after a newer one has undone it.
func TestReleaseCanUseTheDatabaseThatANewerOneTookBack(t *testing.T) {
	for name, c := range map[string]struct {
		release, inUse fakeDatabase
		can            bool
	}{
		"as it is":                        {fakeDatabase{current: "2", supported: 2}, fakeDatabase{}, true},
		"migrated by the release in use":  {fakeDatabase{current: "4", supported: 2}, fakeDatabase{current: "4", supported: 4}, false},
		"taken back by it":                {fakeDatabase{current: "3", supported: 2}, fakeDatabase{current: "2", supported: 4}, true},
		"taken back in part":              {fakeDatabase{current: "4", supported: 2}, fakeDatabase{current: "3", supported: 4}, false},
		"taken back before, and upgraded": {fakeDatabase{current: "3", supported: 2}, fakeDatabase{current: "3", supported: 2}, true},
		"older than the release in use":   {fakeDatabase{current: "3", supported: 1}, fakeDatabase{current: "3", supported: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := c.release.machine(t)
			h.Runner = c.inUse.at(h.Runner.(*hosttest.Runner), "/var/lib/concourse/releases/used")
			can, supported, err := CanUse(t.Context(), h, fakeRelease, "/var/lib/concourse/releases/used", database(), nil)
			require.NoError(t, err)
			require.Equal(t, c.can, can)
			require.Equal(t, c.release.supported, supported)
		})
	}
}

// D15: the database is migrated, in either direction, to a version that the release can
// use.
func TestMigrate_D15(t *testing.T) {
	for name, c := range map[string]struct {
		db  fakeDatabase
		to  int
		err string
	}{
		"up":               {fakeDatabase{current: "1", supported: 3}, 3, ""},
		"down":             {fakeDatabase{current: "3", supported: 3}, 1, ""},
		"unused":           {fakeDatabase{supported: 3}, 3, ""},
		"there":            {fakeDatabase{current: "2", supported: 3}, 2, ""},
		"beyond":           {fakeDatabase{current: "1", supported: 3}, 4, "cannot migrate the database to version 4: this release knows none above 3; current is 1"},
		"nowhere":          {fakeDatabase{current: "1", supported: 3}, 0, "this release knows none above 3"},
		"by an older one":  {fakeDatabase{current: "9", supported: 3}, 1, "use the release that made it"},
		"to a gap":         {fakeDatabase{current: "3", supported: 3, lands: 1}, 2, "it is at 1 now, as no migration has that number"},
		"by a broken file": {fakeDatabase{current: "3", supported: 3, fails: "no password hunter2 for key 0123456789abcdef"}, 1, "no password *** for key ***"},
	} {
		err := Migrate(context.Background(), c.db.machine(t), fakeRelease, database(), map[string]string{"CONCOURSE_ENCRYPTION_KEY": "0123456789abcdef"}, c.to)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, name)
			require.NotContains(t, err.Error(), "hunter2", name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, fmt.Sprint(c.to), c.db.current, name)
	}
}

// The password and the keys are in the environment, and of the web's environment nothing
// more is.
func TestMigrationsSecretsAreNotInTheArguments(t *testing.T) {
	db := fakeDatabase{current: "1", supported: 3}
	require.NoError(t, Migrate(context.Background(), db.machine(t), fakeRelease, database(), webConfig().Env(), 3))
	for i, c := range db.commands {
		require.Equal(t, i != 2, c.ReadOnly)
		require.NotContains(t, c.String(), "hunter2")
		require.Equal(t, []string{"CONCOURSE_ENCRYPTION_KEY=0123456789abcdef", "CONCOURSE_OLD_ENCRYPTION_KEY=fedcba9876543210",
			"CONCOURSE_POSTGRES_CA_CERT=/var/lib/concourse/keys/database-ca.pem", "CONCOURSE_POSTGRES_CONNECT_TIMEOUT=10s",
			"CONCOURSE_POSTGRES_DATABASE=concourse", "CONCOURSE_POSTGRES_HOST=10.0.0.3", "CONCOURSE_POSTGRES_PASSWORD=hunter2",
			"CONCOURSE_POSTGRES_PORT=5432", "CONCOURSE_POSTGRES_SSLMODE=require", "CONCOURSE_POSTGRES_USER=u"}, c.Env)
	}
	require.Len(t, db.commands, 4)
}
