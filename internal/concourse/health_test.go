package concourse

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestCheckHealth(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   Health
	}{
		"up":             {200, `{"garden":{"healthy":true},"baggageclaim":{"healthy":true}}`, Health{Healthy, ""}},
		"containerd":     {503, `{"garden":{"healthy":false,"reason":"deadline\nexceeded"},"baggageclaim":{"healthy":true}}`, Health{Unhealthy, "garden is unhealthy: deadline exceeded"}},
		"no reason":      {503, `{"garden":{"healthy":false}}`, Health{Unhealthy, "garden is unhealthy"}},
		"not JSON":       {503, `oops`, Health{Unhealthy, "the health check returned 503"}},
		"something else": {302, ``, Health{Unhealthy, "the health check returned 302"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/")
				w.WriteHeader(tc.status)
				w.Write([]byte(tc.body))
			}))
			defer s.Close()
			require.Equal(t, tc.want, CheckHealth(context.Background(), s.URL))
		})
	}
}

func TestWorkerThatDoesNotAnswerIsDown(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	got := CheckHealth(context.Background(), s.URL)
	require.Equal(t, Down, got.State)
	require.Contains(t, got.Why, "connection refused")
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	require.Equal(t, Health{Down, "no answer in 5 s"}, CheckHealth(ctx, s.URL))
	got = CheckHealth(context.Background(), "http://"+strings.Repeat("x", 1000)+":none")
	require.Equal(t, Down, got.State)
	require.Less(t, len(got.Why), maxWhy+10, "it fits a status")
}

func FuzzParseHealth(f *testing.F) {
	f.Add(503, []byte(`{"garden":{"healthy":false,"reason":"x"}}`))
	f.Add(503, []byte(`{"garden":null}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		h := parseHealth(status, body)
		if strings.ContainsAny(h.Why, "\r\n\x00") || len([]rune(h.Why)) > 203 {
			t.Fatalf("%q", h.Why)
		}
	})
}

// The journal has the reason why a web does not start, which its closed port has not.
func TestErrorOfAWebThatDoesNotStart(t *testing.T) {
	for name, c := range map[string]struct{ out, want string }{
		"an error":    {"error: parse \":x\": missing protocol scheme\n", `parse ":x": missing protocol scheme`},
		"no line":     {"", ""},
		"other lines": {"{\"message\":\"atc.cmd.start\"}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.NewRunner(t).Answer("journalctl --unit concourse-server.service --output cat --no-pager --reverse --lines 1 --since -1min", c.out)
			require.Equal(t, c.want, StartError(t.Context(), r))
		})
	}
	require.Empty(t, StartError(t.Context(), hosttest.NewRunner(t).Fail("journalctl", 1, "")))
}
