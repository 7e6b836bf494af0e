//go:build e2e

package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// named is the folder of the release to test with, "" without one.
var named string

// concourse runs `concourse migrate` of a real release with what a relation
// gave, as the web gets it.
func concourse(t *testing.T, db relation.Database, argument string) (string, error) {
	t.Helper()
	if named == "" {
		t.Skip(suite.NoRelease)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, []byte(db.CA), 0o600))
	cmd := exec.CommandContext(ctx, filepath.Join(named, "bin/concourse"), "migrate", argument)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "CONCOURSE_POSTGRES_HOST=" + db.Host, "CONCOURSE_POSTGRES_PORT=" + strconv.Itoa(db.Port), "CONCOURSE_POSTGRES_USER=" + db.User,
		"CONCOURSE_POSTGRES_PASSWORD=" + db.Password, "CONCOURSE_POSTGRES_DATABASE=" + db.Name, "CONCOURSE_POSTGRES_SSLMODE=" + db.SSLMode(), "CONCOURSE_POSTGRES_CA_CERT=" + ca}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// The whole way: bag and secrets, as a provider writes them, to Concourse's own
// tables, over TLS and with a password of any characters.
func TestD30ConcourseTakesWhatTheRelationGave(t *testing.T) {
	l := lose(t, "real", "charmed_real_owner", "charmed_real_dml", "relation-7")
	l.must(t, l.name, `drop table auth_request, builds, "Odd ""name"";"`)
	l.must(t, "postgres", l.text(`alter role {user} password 'p%41 ''"\$@:/?#[]&=;,ü€%'`))
	app := map[string]string{"endpoints": fmt.Sprintf("127.0.0.1:%d", l.port), "database": l.name, "secret-user": "secret:u", "secret-tls": "secret:t"}
	given := func(ca string) relation.Database {
		db, ok, problems := relation.ParseDatabase(app, nil, map[string]map[string]string{
			"secret:u": {"username": l.user, "password": odd}, "secret:t": {"tls": "True", "tls-ca": ca}})
		require.Empty(t, problems)
		require.True(t, ok)
		return db
	}
	db := given(authority.PEM)
	_, err := concourse(t, given(stranger.PEM), "--current-db-version")
	require.ErrorContains(t, err, "certificate", "Concourse looks at the CA, too")

	// The provider makes the first user the owner as it logs in, and the next not.
	l.must(t, "postgres", l.text("alter role {user} in database {name} set role = {owner}"))
	_, err = concourse(t, db, "--migrate-to-latest-version")
	require.NoError(t, err)
	l.must(t, "postgres", l.text("alter role {user} in database {name} reset role"))
	_, err = concourse(t, db, "--current-db-version")
	require.ErrorContains(t, err, "permission denied")

	config := postgres.Config{Host: db.Host, Port: db.Port, User: db.User, Password: db.Password, Name: db.Name, SSLMode: db.SSLMode(), CA: db.CA}
	granted, err := postgres.Repair(deadline(t), config)
	require.NoError(t, err)
	require.Len(t, granted, 1)
	require.Contains(t, granted[0], "and its role at each login")
	version, err := concourse(t, db, "--current-db-version")
	require.NoError(t, err)
	require.Regexp(t, `^\d+$`, version)
	_, err = concourse(t, db, "--migrate-to-latest-version")
	require.NoError(t, err, "which makes a table where there is none, as the web does when it starts")
	granted, err = postgres.Repair(deadline(t), config)
	require.NoError(t, err)
	require.Empty(t, granted)
}
