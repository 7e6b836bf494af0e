package webclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
)

func clientOf(url string) *Client {
	return New(login.Credentials{URL: url, Username: "admin", Password: "s3 cr&t"}, nil, time.Now)
}

// An answer of another server is not a surprise: a page, a redirection, one without end.
func TestAnswersOfAnotherServerAreNoSurprise(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for name, c := range map[string]struct {
		token, handler http.HandlerFunc // token nil: a good one
		kind           Kind
		want           string
	}{
		"a page":      {nil, answer(200, "<html>"), Answer, "does not answer as Concourse does: it is not the expected JSON"},
		"an error":    {nil, answer(503, "<html>no"), Failing, "answers 503 Service Unavailable"},
		"without end": {nil, answer(200, strings.Repeat("x", MaxAnswer+2)), Answer, "it has more than 67108864 bytes"},
		"elsewhere": {nil, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, Refused, "answers 307 Temporary Redirect to " + other.URL},
		"breaking off":  {nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Unreachable, "does not answer: EOF"},
		"no login":      {answer(404, "no-such-password"), nil, Login, "answers 404 Not Found: it gave no token"},
		"login by page": {answer(200, "<html>"), nil, Answer, "it is not the expected JSON"},
		"login by proxy": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, nil, Login, "answers 307 Temporary Redirect to " + other.URL},
	} {
		if c.token == nil {
			c.token = answer(200, `{"access_token":"x"}`)
		}
		mux := http.NewServeMux()
		mux.Handle("/sky/issuer/token", c.token)
		if c.handler != nil {
			mux.Handle("/api/", c.handler)
		}
		s := httptest.NewServer(mux)
		var failed *CallError
		require.ErrorAs(t, clientOf(s.URL).Call(t.Context(), Request{Path: "/api/v1/teams"}, new([]any)), &failed, name)
		require.ErrorContains(t, failed, c.want, name)
		require.Equal(t, c.kind, failed.Kind, name)
		s.Close()
	}
	require.Zero(t, elsewhere, "neither password nor token go elsewhere")
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

func TestListPassesEachElement(t *testing.T) {
	web := atctest.New(t)
	c := clientOf(web.URL + "/") // as behind a reverse proxy
	defer c.Close()
	for body, want := range map[string]struct {
		names []string
		err   string
	}{
		`[{"name":"a"},{"name":"b"}]`: {[]string{"a", "b"}, ""},
		"null":                        {nil, ""},
		`[{"name":"a"},{"name":5}]`:   {[]string{"a"}, "it is not JSON with the expected list"},
		`[{"name":"a"},`:              {[]string{"a"}, "it is not JSON with the expected list"},
	} {
		web.Set(func(s *atctest.Server) { s.Answers[atctest.Jobs] = body })
		var names []string
		err := List(t.Context(), c, Request{Path: atctest.Jobs}, func(j struct{ Name string }) { names = append(names, j.Name) })
		require.Equal(t, want.names, names, body)
		if want.err == "" {
			require.NoError(t, err, body)
			continue
		}
		require.ErrorContains(t, err, "cannot get /api/v1/jobs: the web at "+web.URL+"/ does not answer as Concourse does: "+want.err, body)
	}
}

// Each try costs the web a slow hash, and may lock the account of a directory.
func TestRejectedPasswordIsNotTriedAgainForAWhile(t *testing.T) {
	web := atctest.New(t)
	web.Set(func(s *atctest.Server) { s.Users["admin"] = "another" })
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := New(login.Credentials{URL: web.URL, Username: "admin", Password: "s3 cr&t"}, nil, func() time.Time { return now })
	for _, logins := range []int{1, 1, 2} {
		if logins == 2 {
			now = now.Add(RefusedPause)
		}
		err := c.Call(t.Context(), Request{What: "list the teams", Path: atctest.Teams}, nil)
		require.EqualError(t, err, "cannot list the teams: the web at "+web.URL+" rejects the password of user admin")
		var failed *CallError
		require.ErrorAs(t, err, &failed)
		require.True(t, failed.Rejected())
		require.False(t, failed.Temporary())
		_, asked := web.Seen()
		require.Equal(t, logins, asked)
	}
}

func TestFailureOfANetworkOrAServerIsTemporary(t *testing.T) {
	for want, all := range map[bool][]*CallError{
		true:  {{Kind: Unreachable}, {Kind: Failing, Status: 500}, {Kind: Refused, Status: 429}},
		false: {{Kind: Refused, Status: 403}, {Kind: Answer, Status: 200}, {Kind: Login, Status: 401}, {Kind: Refused, Status: 499}},
	} {
		for _, e := range all {
			require.Equal(t, want, e.Temporary(), "%+v", e)
		}
	}
	require.True(t, errors.Is(clientOf("").unreachable(Request{}, http.ErrServerClosed), http.ErrServerClosed))
}

func TestTokenIsReplacedBeforeItsEnd(t *testing.T) {
	for life, renew := range map[int]time.Duration{600: 540 * time.Second, 86_400: 86_100 * time.Second} {
		logins := 0
		mux := http.NewServeMux()
		mux.HandleFunc("/sky/issuer/token", func(w http.ResponseWriter, r *http.Request) {
			logins++
			answer(200, fmt.Sprintf(`{"access_token":"x","expires_in":%d}`, life))(w, r)
		})
		mux.Handle("/api/", answer(200, "{}"))
		s := httptest.NewServer(mux)
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		now := start
		c := New(login.Credentials{URL: s.URL}, nil, func() time.Time { return now })
		for after, want := range []int{1, 1, 2} {
			now = start.Add([]time.Duration{0, renew - 1, renew}[after])
			require.NoError(t, c.Call(t.Context(), Request{Path: "/api/v1/info"}, nil))
			require.Equal(t, want, logins, "%d s, at %s", life, now.Sub(start))
		}
		s.Close()
	}
}
