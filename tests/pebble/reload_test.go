//go:build e2e

package pebble

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
)

// slow makes a GPU answer only on request. reached is closed when the exporter waits for
// it.
func (u *unit) slow(t *testing.T) (reached chan struct{}, answer func()) {
	t.Helper()
	list, _, err := monitor.All(u.gpus)()
	require.NoError(t, err)
	path := u.gpus.Path(list[0].Sysfs + "/gpu_busy_percent")
	require.NoError(t, os.Remove(path))
	require.NoError(t, unix.Mkfifo(path, 0o644))
	reached = make(chan struct{})
	var w *os.File
	go func() {
		w, _ = os.OpenFile(path, os.O_WRONLY, 0) // returns when there is a reader
		close(reached)
	}()
	return reached, func() {
		_, err := w.WriteString("42\n")
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
}

func TestSIGTERMLetsAScrapeEnd(t *testing.T) {
	t.Parallel()
	// The helper reads no GPU, so only a scrape reaches the slow one.
	const helper = "write-gpus " + role.GPUReport + " --path.root="
	u := newUnit(t, helper, helper+"/absent")
	reached, answer := u.slow(t)
	d := u.start(t)
	eventually(t, func() bool { code, _ := u.get("/-/healthy"); return code == 200 }, "it does not answer")
	pid := u.pids()[0]
	scraped := make(chan string, 1)
	go func() {
		code, body := u.get("/metrics")
		scraped <- http.StatusText(code) + body
	}()
	<-reached
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	answer()
	require.Regexp(t, `(?s)^OK.*rocm_exporter_device_up\{`, <-scraped)
	const ended = `Service "rocm-exporter" stopped unexpectedly with code 0`
	eventually(t, func() bool { return strings.Contains(d.log.String(), ended) }, "it did not end with 0")
	eventually(t, func() bool { p := u.pids(); return len(p) == 1 && p[0] != pid }, "it is not started again")

	d.ask("stop", service)
	require.Empty(t, u.pids())
	require.Equal(t, "inactive", d.state())
}

func TestSIGHUPReloadsWithoutARestart(t *testing.T) {
	t.Parallel()
	d := newUnit(t).start(t)
	pid := d.serving()
	d.ask("signal", "HUP", service)
	eventually(t, func() bool { return strings.Contains(d.ask("logs"), "opens everything again") }, "it does not reload")
	require.Equal(t, pid, d.serving())
}

// Pebble reads its layers' files when it starts; a running one is given the
// changed layer.
func TestReplanRestartsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	u, other := newUnit(t), newUnit(t)
	second := replace(t, other.layer, service+":", "other:")
	require.NoError(t, u.WriteFile(strings.Replace(layerPath, "001-"+service, "900-other", 1), []byte(second), 0o644))
	d := u.start(t)
	pid := d.serving()
	neighbour := &daemon{unit: other, t: t}
	stays := neighbour.serving()
	_, body := d.get("/metrics")
	require.NotContains(t, body, "DCGM_FI_DEV_")

	changed := replace(t, u.layer, "exporter serve", "exporter serve --dcgm-aliases")
	require.NoError(t, host.Root(u.Path("/")).WriteFile("/changed.yaml", []byte(changed), 0o644))
	d.ask("add", "--combine", service, u.Path("/changed.yaml"))
	d.ask("replan")
	d.serving(pid)
	_, body = d.get("/metrics")
	require.Contains(t, body, "DCGM_FI_DEV_")
	require.Equal(t, stays, neighbour.serving(), "the other service stays as it is")
}
