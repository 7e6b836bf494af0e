//go:build e2e

package web

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	database "github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
)

// The next user of a database owns nothing of what the one before left: the web can't start
// with it until what the charm reports to run was run, and then it does all that it did.
func TestWebOfAUserThatOwnsNothing(t *testing.T) {
	ctx := context.Background()
	pg := startPostgres(t)
	u := newUnit(t, 0, pg, newSecrets(t))
	u.converge()
	u.start(nil)
	require.NoError(t, u.process.Process.Signal(syscall.SIGTERM))
	require.NoError(t, u.process.Wait())

	pg.sql(`create role "relation-8" login password '` + pg.db.Password + `'`)
	u.config.Database.User = "relation-8"
	require.NotEmpty(t, u.converge())
	db := database.Config{Host: pg.db.Host, Port: pg.db.Port, User: "relation-8", Password: pg.db.Password, Name: pg.db.Name, SSLMode: pg.db.SSLMode, CA: string(pg.ca)}
	require.NoError(t, database.Ping(ctx, db))
	_, err := database.Repair(ctx, db)
	require.ErrorContains(t, err, "they belong to relation-7, and it lacks that role's rights")
	_, statement, _ := strings.Cut(err.Error(), "as a superuser run there: ")
	pg.in(statement)
	require.NoError(t, database.Rights(ctx, db))
	u.start(nil)
	status, answer := u.request(login(t, u), http.MethodPut, "/api/v1/teams/main/pipelines/p/config", pipeline)
	require.Equal(t, http.StatusCreated, status, answer)
	require.NotContains(t, u.said(), "42501")
}
