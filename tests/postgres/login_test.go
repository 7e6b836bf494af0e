//go:build e2e

package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
)

// odd has what a shell, a URI, a keyword list and an env file each take for
// something of theirs.
const odd = `p%41 '"\$@:/?#[]&=;,ü€%`

func TestD30PasswordOfAnyCharactersLogsIn(t *testing.T) {
	c := need(t)
	c.must(t, "postgres", `create role odd login password 'p%41 ''"\$@:/?#[]&=;,ü€%'`)
	require.NoError(t, postgres.Ping(deadline(t), c.config("odd", odd, "postgres")))
}

func TestErrorsNameTheFailedPart(t *testing.T) {
	c := need(t)
	c.must(t, "postgres", "create role knocker login password 'the right one'")
	login := func(change func(*postgres.Config)) postgres.Config {
		db := c.config("knocker", "the right one", "postgres")
		change(&db)
		return db
	}
	for name, row := range map[string]struct {
		db   postgres.Config
		want string
	}{
		"wrong password": {login(func(db *postgres.Config) { db.Password = "not that one" }), ": the server refuses the password"},
		"no user":        {login(func(db *postgres.Config) { db.User = "nobody" }), "as user nobody: the server refuses the password"},
		"no database":    {login(func(db *postgres.Config) { db.Name = "none" }), `database "none" does not exist (SQLSTATE 3D000)`},
		"wrong CA": {login(func(db *postgres.Config) { db.SSLMode, db.CA = "verify-full", stranger.PEM }),
			"the server's certificate is not signed by the CA that the relation gave"},
		"wrong CA, any name": {login(func(db *postgres.Config) { db.SSLMode, db.CA = "verify-ca", stranger.PEM }),
			"the server's certificate is not signed by the CA that the relation gave"},
		"wrong host": {login(func(db *postgres.Config) { db.Host, db.SSLMode, db.CA = "localhost", "verify-full", authority.PEM }),
			"the server's certificate is another host's: "},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range []func(postgres.Config) error{
				func(db postgres.Config) error { return postgres.Ping(deadline(t), db) },
				func(db postgres.Config) error { _, err := postgres.Repair(deadline(t), db); return err },
			} {
				err := f(row.db)
				require.ErrorContains(t, err, row.want)
				require.ErrorContains(t, err, "cannot reach the database "+row.db.Name+" at "+row.db.Host+":")
				require.NotContains(t, err.Error(), row.db.Password)
			}
		})
	}
}

func TestTLSFollowsTheMode(t *testing.T) {
	c := need(t)
	c.must(t, "postgres", "create role tlsonly login password 'secret enough'")
	for name, row := range map[string]struct {
		mode, ca, host string
		works          bool
	}{
		"disable":                        {mode: "disable", host: "127.0.0.1"},
		"require":                        {mode: "require", host: "127.0.0.1", works: true},
		"verify-ca":                      {mode: "verify-ca", ca: authority.PEM, host: "127.0.0.1", works: true},
		"verify-ca under another name":   {mode: "verify-ca", ca: authority.PEM, host: "localhost", works: true},
		"verify-full":                    {mode: "verify-full", ca: authority.PEM, host: "127.0.0.1", works: true},
		"verify-full with two CAs":       {mode: "verify-full", ca: stranger.PEM + authority.PEM, host: "127.0.0.1", works: true},
		"verify-full under another name": {mode: "verify-full", ca: authority.PEM, host: "localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			db := c.config("tlsonly", "secret enough", "postgres")
			db.SSLMode, db.CA, db.Host = row.mode, row.ca, row.host
			err := postgres.Ping(deadline(t), db)
			if row.works {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
		})
	}
}

func TestReplicaIsNotADatabaseForTheWeb(t *testing.T) {
	c := need(t)
	replica, err := start(c.bin, "standby.signal")
	require.NoError(t, err)
	t.Cleanup(replica.stop)
	err = postgres.Ping(deadline(t), replica.config("admin", adminPassword, "postgres"))
	require.ErrorContains(t, err, "that server is a replica, which takes no writes")
	require.NoError(t, postgres.Ping(deadline(t), c.config("admin", adminPassword, "postgres")))
}

// The environment of a hook or of a person's shell must not lead elsewhere.
func TestEnvironmentDoesNotCount(t *testing.T) {
	c := need(t)
	for key, value := range map[string]string{"PGHOST": "192.0.2.1", "PGPORT": "1", "PGUSER": "nobody", "PGDATABASE": "none", "PGPASSWORD": "wrong",
		"PGSSLMODE": "verify-full", "PGOPTIONS": "-c role=none_such", "PGTARGETSESSIONATTRS": "standby", "PGSSLNEGOTIATION": "direct"} {
		t.Setenv(key, value)
	}
	require.NoError(t, postgres.Ping(deadline(t), c.config("admin", adminPassword, "postgres")))
}
