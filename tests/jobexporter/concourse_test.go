//go:build e2e

package jobexporter

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// exporter is a poller, and what it logs.
type exporter struct {
	*jobexporter.Poller
	file string
}

func newExporter(t *testing.T, at, user, password string, now func() time.Time) exporter {
	t.Helper()
	e := exporter{file: filepath.Join(t.TempDir(), "credentials.json")}
	e.credentials(t, at, user, password)
	e.Poller = jobexporter.NewPoller(jobexporter.Options{
		CredentialsFile: e.file, Timeout: time.Minute, Keep: time.Minute,
		Version: "e2e", RequiredArchs: []string{"gfx942"}, Logs: log.New(io.Discard, "", 0), Now: now,
	})
	return e
}

func (e exporter) credentials(t *testing.T, at, user, password string) {
	t.Helper()
	data, err := login.Credentials{URL: at, Username: user, Password: password}.Marshal()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(e.file, data, 0o600))
}

func (e exporter) text() string {
	w := httptest.NewRecorder()
	jobexporter.Handler(e.Poller, false).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

const config = `{"jobs":[
{"name":"build","plan":[{"task":"t","config":{"platform":"linux","run":{"path":"true"}}}]},
{"name":"never","plan":[{"task":"t","config":{"platform":"linux","run":{"path":"true"}}}]}]}`

// The answers of a real Concourse are what the fake ones of the other tests are.
func TestJobsOfARealConcourse(t *testing.T) {
	web := suite.StartWeb(t)
	admin := loggedIn(t, web, "admin", "s3 cr&t")
	e := newExporter(t, web.URL, "admin", "s3 cr&t", time.Now)
	require.NoError(t, e.Poll(t.Context()))
	require.Contains(t, e.text(), "\nconcourse_jobs_total 0\n")
	require.Contains(t, e.text(), "\nconcourse_required_arch_workers{arch=\"gfx942\"} 0\n")

	admin.ask(t, "PUT", "/api/v1/teams/dev", `{"auth":{"owner":{"users":["local:other"]}}}`)
	admin.ask(t, "PUT", "/api/v1/teams/main/pipelines/plain/config", config)
	admin.ask(t, "PUT", "/api/v1/teams/main/pipelines/plain/unpause", "")
	for _, branch := range []string{"main", "yes"} {
		admin.ask(t, "PUT", "/api/v1/teams/dev/pipelines/deploy/config?vars.n=1&vars.branch="+url.QueryEscape(`"`+branch+`"`), config)
	}
	admin.ask(t, "PUT", "/api/v1/teams/dev/pipelines/deploy/jobs/never/pause?vars.n=1&vars.branch=%22main%22", "")
	require.NoError(t, e.Poll(t.Context()))
	text := e.text()
	for _, line := range []string{
		"concourse_teams 2", "concourse_pipelines_total 3", "concourse_jobs_total 6",
		`concourse_job_last_build_status{job="build",pipeline="plain",team="main"} -4`,
		`concourse_job_last_build_status{job="build",pipeline="deploy/branch:main,n:1",team="dev"} -4`,
		`concourse_job_last_build_status{job="build",pipeline="deploy/branch:\"yes\",n:1",team="dev"} -4`,
		`concourse_job_paused{job="never",pipeline="deploy/branch:main,n:1",team="dev"} 1`,
		`concourse_pipeline_paused{pipeline="deploy/branch:main,n:1",team="dev"} 1`,
		`concourse_pipeline_paused{pipeline="plain",team="main"} 0`,
	} {
		require.Contains(t, text, "\n"+line+"\n")
	}

	// There is not a worker: the build is aborted before it starts.
	var build struct{ ID json.Number }
	require.NoError(t, json.Unmarshal(admin.ask(t, "POST", "/api/v1/teams/main/pipelines/plain/jobs/build/builds", ""), &build))
	require.NoError(t, e.Poll(t.Context()))
	require.Contains(t, e.text(), `concourse_job_last_build_status{job="build",pipeline="plain",team="main"} -`)
	admin.ask(t, "PUT", "/api/v1/builds/"+build.ID.String()+"/abort", "")
	require.Eventually(t, func() bool { // Concourse looks for work every 10 s
		return e.Poll(t.Context()) == nil &&
			strings.Contains(e.text(), `concourse_job_last_build_status{job="build",pipeline="plain",team="main"} -2`)
	}, time.Minute, time.Second/4)
	text = e.text()
	require.Contains(t, text, `concourse_job_last_build_timestamp{job="build",pipeline="plain",status="aborted",team="main"} 1.`)
	require.NotContains(t, text, "concourse_job_last_build_duration_seconds{")

	admin.ask(t, "DELETE", "/api/v1/teams/dev/pipelines/deploy?vars.n=1&vars.branch=%22yes%22", "")
	admin.ask(t, "PUT", "/api/v1/teams/main/pipelines/plain/archive", "")
	require.NoError(t, e.Poll(t.Context()))
	text = e.text()
	require.NotContains(t, text, `pipeline="deploy/branch:\"yes\",n:1"`)
	require.NotContains(t, text, `pipeline="plain"`)
	require.Contains(t, text, "\nconcourse_pipelines_archived 1\n")

	// A user that is not an admin has its own teams.
	e.credentials(t, web.URL, "other", "o")
	require.NoError(t, e.Poll(t.Context()))
	require.Contains(t, e.text(), "\nconcourse_teams 1\n")
	require.Contains(t, e.text(), `team="dev"`)
	e.credentials(t, web.URL, "nobody", "n")
	require.ErrorContains(t, e.Poll(t.Context()), "cannot see any team: nobody is in none of "+web.URL)
	e.credentials(t, web.URL, "admin", "wrong")
	require.EqualError(t, e.Poll(t.Context()), "cannot get /api/v1/teams: the web at "+web.URL+" rejects the password of user admin")
}

// user is someone who is logged in.
type user struct{ url, token string }

func loggedIn(t *testing.T, web suite.Web, name, password string) user {
	t.Helper()
	form := url.Values{"grant_type": {"password"}, "username": {name}, "password": {password}, "scope": {"openid profile email federated:id groups"}}
	req, err := http.NewRequest("POST", web.URL+"/sky/issuer/token", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.SetBasicAuth("fly", "Zmx5")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	return user{web.URL, answer.Token}
}

func (u user) ask(t *testing.T, method, path, body string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.url+path, bytes.NewBufferString(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+u.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Less(t, resp.StatusCode, 300, "%s %s: %s", method, path, data)
	return data
}
