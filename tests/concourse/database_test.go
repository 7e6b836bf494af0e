//go:build e2e

package concourse

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// This needs no release: the charm itself asks the database, and what it writes
// for Concourse logs in.
func TestTheCharmAndTheDatabase(t *testing.T) {
	need(t)
	pg := startPostgres(t)
	stand := filepath.Join(t.TempDir(), "concourse-8.2.5.tgz")
	require.NoError(t, sandbox.StandInRelease(stand, "8.2.5"))
	web := newWorld(t, charmName, 0, "no-gpu", stand)
	a := &app{t: t}
	a.add(web, map[string]any{"mode": "web", "web-port": web.Machine.WebPort()})
	a.begin()
	require.Equal(t, "blocked: PostgreSQL database required — run: juju integrate concourse-ci-machine:postgresql <postgresql application>:database", web.status())
	a.relate(pg)
	a.relation(web, "postgresql", "changed", "postgresql/0")
	require.Contains(t, pg.said(), "connection authorized: user=relation-4 database=concourse", "the charm looks at its rights")
	require.Contains(t, web.status(), "active: Web server ready (v8.2.5) ", "a stand-in answers for the web")
	env := parseEnvFile(read(web, "/var/lib/concourse/config.env"))
	require.Equal(t, pg.address, env["CONCOURSE_POSTGRES_HOST"]+":"+env["CONCOURSE_POSTGRES_PORT"])
	require.Equal(t, "relation-4", pg.ask(env["CONCOURSE_POSTGRES_USER"], env["CONCOURSE_POSTGRES_PASSWORD"], env["CONCOURSE_POSTGRES_DATABASE"], "select current_user"))
}
