//go:build e2e

package web

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const pipeline = `jobs: [{name: a, plan: [{task: t, config: {platform: linux, run: {path: "true"}}}]}]`

// D29: the key of the database is set, changed and taken back, with the one
// before as the old key; restarts in between, with the old key still there,
// harm nothing.
func TestEncryptionKeyIsChanged_D29(t *testing.T) {
	pg := startPostgres(t)
	u := newUnit(t, 0, pg, newSecrets(t))
	const a, b = "0123456789abcdef", "fedcba9876543210fedcba9876543210"
	for i, keys := range []struct{ now, old string }{{"", ""}, {a, ""}, {a, ""}, {b, a}, {b, a}, {b, ""}, {"", b}, {"", ""}} {
		u.config.EncryptionKey, u.config.OldEncryptionKey = keys.now, keys.old
		u.converge()
		u.start(nil)
		token := login(t, u)
		if i == 0 {
			status, answer := u.request(token, http.MethodPut, "/api/v1/teams/main/pipelines/p/config", pipeline)
			require.Equal(t, http.StatusCreated, status, answer)
		}
		status, answer := u.request(token, http.MethodGet, "/api/v1/teams/main/pipelines/p/config", "")
		require.Equal(t, http.StatusOK, status, "%v: %s", keys, answer)
		require.Contains(t, answer, `"platform":"linux"`)
		encrypted := pg.in("select count(*) from jobs where nonce is not null") != "0"
		require.Equal(t, keys.now != "", encrypted, "%v", keys)
		require.NoError(t, u.process.Process.Signal(syscall.SIGTERM))
		require.NoError(t, u.process.Wait())
	}
}
