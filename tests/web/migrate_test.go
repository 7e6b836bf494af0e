//go:build e2e

package web

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// D15: the database goes down one version and up again, and a version that the release does
// not know is refused, although Concourse itself reports success.
func TestDatabaseIsMigrated_D15(t *testing.T) {
	ctx, h, dir := context.Background(), host.New("/"), releaseDir(t)
	pg := startPostgres(t)
	db := pg.db
	ca := newUnit(t, 0, pg, newSecrets(t))
	ca.converge()
	db.CAFile = ca.host.Path(ca.config.Paths.DatabaseCA())
	env := ca.config.Env()

	current, supported, err := concourse.DatabaseVersions(ctx, h, dir, db, env)
	require.NoError(t, err)
	require.Zero(t, current, "no web has used it")
	require.Positive(t, supported)
	require.NoError(t, concourse.Migrate(ctx, h, dir, db, env, supported))
	current, _, err = concourse.DatabaseVersions(ctx, h, dir, db, env)
	require.NoError(t, err)
	require.Equal(t, supported, current)

	before, err := strconv.Atoi(pg.in("select version from migrations_history where version < (select max(version) from migrations_history) order by version desc limit 1"))
	require.NoError(t, err)
	require.NoError(t, concourse.Migrate(ctx, h, dir, db, env, before))
	current, _, err = concourse.DatabaseVersions(ctx, h, dir, db, env)
	require.NoError(t, err)
	require.Equal(t, before, current)
	require.ErrorContains(t, concourse.Migrate(ctx, h, dir, db, env, supported+1), "knows none above")
	require.NoError(t, concourse.Migrate(ctx, h, dir, db, env, supported))

	wrong := db
	wrong.Password = "hunter2"
	_, _, err = concourse.DatabaseVersions(ctx, h, dir, wrong, env)
	require.ErrorContains(t, err, "cannot read the version of the database")
	require.NotContains(t, err.Error(), "hunter2")
	plain := db
	plain.SSLMode, plain.CAFile = "disable", ""
	_, _, err = concourse.DatabaseVersions(ctx, h, dir, plain, nil)
	require.Error(t, err, "the server takes TLS only")
}
