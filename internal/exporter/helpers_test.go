package exporter

import (
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
)

// dev is the device of small trees that tests make by hand.
const dev = "/sys/devices/pci0000:00/0000:03:00.0"

// never is a deadline that does not pass, so that no test depends on speed.
func never(string) <-chan time.Time { return nil }

func newTestCollector(r host.Root, s Source) *Collector {
	c := NewCollector(r, s, "v0.0.0-test", Options{RASInterval: time.Minute})
	c.deadline = never
	c.now = func() time.Time { return hosttest.Now }
	return c
}

// one is a source of a single GPU at dev.
func one() ([]Device, error) { return []Device{{PCI: "0000:03:00.0", Dir: dev, Own: dev}}, nil }

// scrape gets /metrics as Prometheus would.
func scrape(t testing.TB, c *Collector) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(c).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code, w.Body.String())
	return goVersion.ReplaceAllString(w.Body.String(), `goversion="go"`)
}

var goVersion = regexp.MustCompile(`goversion="[^"]*"`)

// series are the sample lines whose metric's name starts with prefix.
func series(text, prefix string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// fifo puts a FIFO in the place of a file: a read of it hangs, as one of a hung
// GPU does in its driver. The channel closes when somebody reads; end, called
// after that, writes the value and so ends the read.
func fifo(t testing.TB, r host.Root, p string) (reached chan time.Time, end func(string)) {
	t.Helper()
	require.NoError(t, r.Remove(p))
	require.NoError(t, unix.Mkfifo(r.Path(p), 0o644))
	reached = make(chan time.Time)
	var w *os.File
	go func() {
		w, _ = os.OpenFile(r.Path(p), os.O_WRONLY, 0) // returns when there is a reader
		close(reached)
	}()
	return reached, func(value string) {
		<-reached
		_, err := io.WriteString(w, value)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
}

// put makes a GPU at dev of the given files.
func put(t testing.TB, files map[string]string) host.Root {
	t.Helper()
	r := host.Root(t.TempDir())
	require.NoError(t, r.MkdirAll(dev, 0o755))
	for name, content := range files {
		hosttest.Put(t, r, dev+"/"+name, content)
	}
	return r
}
