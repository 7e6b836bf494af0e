//go:build e2e

package web

import (
	"encoding/json"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	credentials "github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
)

// The job exporter writes on the wall of a real Concourse. Users see it without a login. A
// text of a person stays there.
func TestWallOfConcourse(t *testing.T) {
	u := newUnit(t, 0, startPostgres(t), newSecrets(t))
	u.converge()
	u.start(nil)
	file, folder := filepath.Join(t.TempDir(), "credentials.json"), t.TempDir()
	data, err := credentials.Credentials{URL: u.url(), Username: "admin", Password: u.secrets.AdminPassword}.Marshal()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	want := ""
	life := 10 * time.Minute
	// poll is a program that starts, polls once and ends.
	poll := func(text string) int {
		t.Helper()
		want = text
		p := jobexporter.NewPoller(jobexporter.Options{CredentialsFile: file, Timeout: patience, StateFolder: folder, WallLife: life,
			Wall: func() (string, bool) { return want, true }, Logs: log.New(os.Stderr, "", 0), Now: time.Now})
		require.NoError(t, p.Poll(t.Context()))
		r := httptest.NewRecorder()
		jobexporter.Handler(p, false).ServeHTTP(r, httptest.NewRequest("GET", "/-/wall", nil))
		t.Logf("%d %s", r.Code, r.Body)
		return r.Code
	}
	type wall struct {
		Message string
		TTL     time.Duration
	}
	shown := func() (w wall) {
		t.Helper()
		resp, err := http.Get(u.url() + "/api/v1/wall")
		require.NoError(t, err)
		defer resp.Body.Close()
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&w))
		return w
	}
	admin := login(t, u)
	require.Equal(t, wall{}, shown())
	require.Equal(t, 200, poll("1 of 4 GPUs quarantined: hangs"))
	got := shown()
	require.Equal(t, "1 of 4 GPUs quarantined: hangs", got.Message)
	require.Greater(t, got.TTL, time.Duration(0))
	require.LessOrEqual(t, got.TTL, life)
	require.Equal(t, 200, poll("2 of 4 GPUs quarantined: hangs"))
	require.Equal(t, "2 of 4 GPUs quarantined: hangs", shown().Message)

	status, text := u.request(admin, "PUT", "/api/v1/wall", `{"message":"Maintenance on Friday"}`)
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, 503, poll("3 of 4 GPUs quarantined: hangs"))
	require.Equal(t, wall{Message: "Maintenance on Friday"}, shown())
	require.Equal(t, 200, poll(""))
	require.Equal(t, wall{Message: "Maintenance on Friday"}, shown())
	status, text = u.request(admin, "DELETE", "/api/v1/wall", "")
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, 200, poll("1 of 4 GPUs quarantined: hangs"))
	require.Equal(t, 200, poll(""))
	require.Equal(t, wall{}, shown())

	life = time.Second
	require.Equal(t, 200, poll("the exporter ends after this"))
	require.Eventually(t, func() bool { return shown() == wall{} }, patience, tick, "the text expires")
}
