package exporter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const dev = exportertest.Dir

// collector is a source with a clock and deadlines that a test may change.
type collector struct {
	*Source
	shown    MetricOptions
	now      func() time.Time
	deadline func(dir string) <-chan time.Time
}

// never is a deadline that does not pass, so that no test depends on speed.
func never(string) <-chan time.Time { return nil }

// only is a deadline of one folder; the others have none.
func only(dir string, c chan time.Time) func(string) <-chan time.Time {
	return func(of string) <-chan time.Time { return map[string]chan time.Time{dir: c}[of] }
}

func newCollector(r host.Root, s monitor.Source, o monitor.Options) *collector {
	c := &collector{now: func() time.Time { return hosttest.Now }, deadline: never}
	o.RASInterval, o.Now = time.Minute, func() time.Time { return c.now() }
	o.Deadlines = func(dir string) <-chan time.Time { return c.deadline(dir) }
	c.Source = &Source{Root: r, Version: "v0.0.0-test", Monitor: monitor.New(r, s, o)}
	return c
}

func newTestCollector(r host.Root, s monitor.Source) *collector {
	return newCollector(r, s, monitor.Options{})
}

// one is a source of a single GPU at dev.
func one() ([]gpu.Slot, []reading.Compute, error) {
	return []gpu.Slot{{Vendor: gpu.AMD, PCI: exportertest.PCI, Sysfs: dev}}, nil, nil
}

// inBackground runs what ends with its context, until it has nothing to do but wait.
func inBackground(t *testing.T, run func(context.Context)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		stop, cancel := context.WithCancel(context.Background())
		go run(stop)
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
}

func (c *collector) handler() http.Handler { return Handler(c.Source, c.shown) }

// get asks as a browser or Prometheus would.
func (c *collector) get(t testing.TB, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	c.handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	require.Equal(t, 200, w.Code, w.Body.String())
	return w
}

// scrape gets /metrics.
func scrape(t testing.TB, c *collector) string {
	t.Helper()
	return goVersion.ReplaceAllString(c.get(t, "/metrics").Body.String(), `goversion="go"`)
}

var goVersion = regexp.MustCompile(`goversion="[^"]*"`)

// lines returns the sample lines of metrics with this prefix.
func lines(text, prefix string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// requireSound looks for what Prometheus would refuse: text that it can't read, and
// series that are there twice. The writer sorts labels, so such lines begin the same.
func requireSound(t testing.TB, text string) {
	t.Helper()
	_, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	seen, family := map[string]bool{}, ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ = strings.Cut(name, " ")
			require.Less(t, family, name, "families are in order, and each once")
			family = name
		}
		if line[0] == '#' {
			continue
		}
		head := line[:strings.LastIndexByte(line, ' ')]
		require.False(t, seen[head], "twice: %s", head)
		seen[head] = true
		name, _, _ := strings.Cut(head, "{")
		require.Contains(t, []string{family, family + "_sum", family + "_count"}, name)
	}
}
