package jobexporter

import (
	"context"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// bed is a poller with its own Concourse, and a clock that the test moves.
type bed struct {
	*Poller
	web  *atctest.Server
	file string
	now  time.Time
	logs hosttest.Buffer
}

func newBed(t *testing.T) *bed { return bedOf(t, atctest.New(t)) }

func bedOf(t *testing.T, web *atctest.Server) *bed {
	t.Helper()
	b := &bed{web: web, file: filepath.Join(t.TempDir(), "credentials.json"), now: hosttest.Now}
	b.Poller = NewPoller(Options{
		CredentialsFile: b.file, Timeout: time.Minute, Keep: 5 * time.Minute, Version: "v1.2.3",
		Logs: log.New(&b.logs, "", 0), Now: func() time.Time { return b.now },
	})
	b.credentials(t, login.Credentials{URL: web.URL, Username: "admin", Password: "s3 cr&t"})
	return b
}

func (b *bed) credentials(t *testing.T, c login.Credentials) {
	t.Helper()
	data, err := c.Marshal()
	require.NoError(t, err)
	put(t, b.file, data)
}

// put replaces a 0600 file in one step.
func put(t *testing.T, file string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+"~", data, 0o600))
	require.NoError(t, os.Rename(file+"~", file))
}

func (b *bed) poll(t *testing.T) error {
	t.Helper()
	return b.Poll(context.Background())
}

// scrape gets /metrics as Prometheus would.
func (b *bed) scrape(t testing.TB) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(b.Poller, false).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code, w.Body.String())
	return w.Body.String()
}

// series are the sample lines of a metric.
func series(text, name string) (out []string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok && strings.ContainsAny(rest[:1], "{ ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}
