package concourse

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
)

func TestAPIListsAndPrunesAndLandsWorkers(t *testing.T) {
	web, ctx := newFakeWeb(t), context.Background()
	api := NewAPI(web.URL, "admin", fakePassword)
	workers, err := api.Workers(ctx)
	require.NoError(t, err)
	slices.SortFunc(workers, func(a, b WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	require.Len(t, workers, 3)
	require.Equal(t, WorkerInfo{Name: "a", Address: "127.0.0.1:1", State: "running", Tags: []string{"gpu"}, Platform: "linux", Version: "3.0",
		ActiveContainers: 3, ActiveTasks: 1, StartTime: 1795267341}, workers[0])

	require.NoError(t, api.Prune(ctx, "b"))
	require.NoError(t, api.Prune(ctx, "b"), "one that is gone already")
	require.NoError(t, api.Prune(ctx, "weird/name"), "its name is one part of the path")
	require.NoError(t, api.Land(ctx, workers[0]))
	require.Equal(t, map[string]string{"a": "landing"}, web.workers)
	require.Equal(t, 1, web.logins, "the token is kept")

	err = api.Land(ctx, WorkerInfo{Name: "gone"})
	require.EqualError(t, err, "cannot land worker gone: the web at "+web.URL+" answers 404 Not Found")
}

// A web of 8.3 lands a worker for those who name its team, and answers 400 to others.
func TestAPILandsTheWorkersOfATeam(t *testing.T) {
	web, ctx := newFakeWeb(t), context.Background()
	web.team = "rocm"
	api := NewAPI(web.URL, "admin", fakePassword)
	workers, err := api.Workers(ctx)
	require.NoError(t, err)
	require.NoError(t, api.Land(ctx, workers[0]))
	require.EqualError(t, api.Land(ctx, WorkerInfo{Name: workers[1].Name}),
		"cannot land worker "+workers[1].Name+": the web at "+web.URL+" answers 400 Bad Request")
}

func TestRunningWorkerIsNotPruned(t *testing.T) {
	web := newFakeWeb(t)
	err := NewAPI(web.URL, "admin", fakePassword).Prune(context.Background(), "a")
	require.EqualError(t, err, "cannot prune worker a: the web at "+web.URL+" answers 400 Bad Request: cannot prune running worker")
	var answer *webclient.CallError
	require.ErrorAs(t, err, &answer)
	require.False(t, answer.Temporary())
	require.Contains(t, web.workers, "a")
}

// A web that was restarted with another session key knows no old token.
func TestAPILogsInAgainOnceAfterARejectedToken(t *testing.T) {
	web, ctx := newFakeWeb(t), context.Background()
	api := NewAPI(web.URL, "admin", fakePassword)
	_, err := api.Workers(ctx)
	require.NoError(t, err)
	web.token = "of another life"
	_, err = api.Workers(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, web.logins)

	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sky/issuer/token" {
			w.Write([]byte(`{"access_token":"x"}`))
			return
		}
		http.Error(w, "not authorized", http.StatusUnauthorized)
	}))
	defer refusing.Close()
	_, err = NewAPI(refusing.URL, "admin", "x").Workers(ctx)
	require.EqualError(t, err, "cannot list the workers: the web at "+refusing.URL+" answers 401 Unauthorized: not authorized", "and not for ever")
}

func TestAPIErrorsHaveARemedyAndNoSecret(t *testing.T) {
	web, ctx := newFakeWeb(t), context.Background()
	for name, c := range map[string]struct {
		base, password, want string
	}{
		"wrong password": {web.URL, "wrong-hunter3", "cannot list the workers: the web at " + web.URL + " rejects the password of user admin"},
		"web down":       {"http://127.0.0.1:1", fakePassword, "cannot list the workers: the web at http://127.0.0.1:1 does not answer: dial tcp"},
		"no URL":         {"http://\x00", fakePassword, "does not answer"},
	} {
		_, err := NewAPI(c.base, "admin", c.password).Workers(ctx)
		require.ErrorContains(t, err, c.want, name)
		remedy, ok := err.(interface {
			Remedy(wellknown.Commands) status.Cause
		})
		require.True(t, ok, name)
		require.Regexp(t, "juju run <unit> restart-services|journalctl --unit concourse-server", remedy.Remedy(wellknown.Commands{}).String(), name)
		for _, secret := range []string{"hunter", "Zmx5", "token-"} {
			require.NotContains(t, remedy.Remedy(wellknown.Commands{}).String(), secret, name)
		}
	}
}

func TestCheckWeb(t *testing.T) {
	web := newFakeWeb(t)
	require.Equal(t, Health{State: Healthy}, CheckWeb(context.Background(), web.URL+"/"))
	require.Equal(t, []string{"GET /api/v1/info"}, web.asked)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    Health
	}{
		"an error":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, Health{Unhealthy, "the health check returned 500"}},
		"another page": {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, Health{Unhealthy, "what answers at URL is not Concourse"}},
		"other JSON":   {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) }, Health{Unhealthy, "what answers at URL is not Concourse"}},
	} {
		s := httptest.NewServer(c.handler)
		got := CheckWeb(context.Background(), s.URL)
		got.Why = strings.ReplaceAll(got.Why, s.URL, "URL")
		require.Equal(t, c.want, got, name)
		s.Close()
	}
	down := CheckWeb(context.Background(), "http://127.0.0.1:1")
	require.Equal(t, Down, down.State)
	require.Contains(t, down.Why, "refused")
}
