//go:build e2e

package pebble

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

// notified is a socket as systemd gives one to a unit of Type=notify, and what
// arrives there.
func notified(t *testing.T) (path string, messages func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return path, func() string {
		t.Helper()
		require.NoError(t, l.SetReadDeadline(time.Now().Add(stuck)))
		b := make([]byte, 4096)
		n, err := l.Read(b)
		require.NoError(t, err)
		return strings.TrimSpace(string(b[:n]))
	}
}

func TestUnitIsReadyAliveAndEndsCleanly(t *testing.T) {
	t.Parallel()
	u := newUnit(t)
	socket, next := notified(t)
	// systemd would be reported within half of WatchdogSec.
	d := u.start(t, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=200000")
	message := next()
	for message == "WATCHDOG=1" {
		message = next()
	}
	require.Equal(t, "READY=1", message)
	for range 3 {
		require.Equal(t, "WATCHDOG=1", next(), "it tells that it is alive, again and again")
	}
	pid := d.serving()
	eventually(t, func() bool { c := d.check(); return c.Status == "up" && c.Successes > 0 }, "the check did not succeed")
	require.Equal(t, "active", d.state())

	t.Run("as nobody, whom Pebble's folder is closed to", func(t *testing.T) {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		require.NoError(t, err)
		require.Contains(t, string(status), "\nUid:\t65534\t65534\t65534\t65534\n")
		require.Contains(t, string(status), "\nGid:\t65534\t65534\t65534\t65534\n")
		st, err := os.Stat(u.Path(role.PebbleDir))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
	})

	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	message = next()
	for message == "WATCHDOG=1" {
		message = next()
	}
	require.Equal(t, "STOPPING=1", message)
	require.Equal(t, 0, d.waitEnd().ExitCode())
	require.Empty(t, u.all())
}

func TestKilledExporterIsStartedAgain(t *testing.T) {
	t.Parallel()
	d := newUnit(t).start(t)
	pid := d.serving()
	for range 3 {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		pid = d.serving(pid)
	}
}

func TestTakenPortIsTakenOverWhenItIsFree(t *testing.T) {
	t.Parallel()
	u := newUnit(t)
	l, err := net.Listen("tcp", u.address)
	require.NoError(t, err)
	socket, next := notified(t)
	d := u.start(t, "NOTIFY_SOCKET="+socket)
	const failed = `Service "rocm-exporter" stopped unexpectedly with code 1`
	eventually(t, func() bool { return strings.Count(d.log.String(), failed) >= 3 }, "the exporter did not fail")
	require.Equal(t, "READY=1", next(), "Pebble itself is well")
	require.Contains(t, d.ask("logs"), "cannot listen on "+u.address+": address already in use")
	eventually(t, func() bool { return d.state() == "backoff" }, "Pebble does not wait")
	require.NoError(t, l.Close())
	d.serving()
	require.Equal(t, "active", d.state())
}

// The next Pebble finds the port free: its services end with the one before, by the
// kernel's signal, or by their watchdog if that does not reach them.
func TestServicesEndWithAKilledPebble(t *testing.T) {
	for name, orphan := range map[string]func(t *testing.T, pid int){
		"running": func(*testing.T, int) {},
		"stopped": func(t *testing.T, pid int) { require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUnit(t, "exporter serve", watchdog)
			d := u.start(t)
			pid := d.serving()
			orphan(t, pid)
			require.NoError(t, d.cmd.Process.Kill())
			d.waitEnd()
			eventually(t, func() bool { return len(u.all()) == 0 }, "the exporter lives on")
			u.start(t).serving(pid)
		})
	}
}

// An old exporter that no signal reached keeps the port from its successor.
func TestPebbleStartsThoughAnOrphanHoldsThePort(t *testing.T) {
	t.Parallel()
	u := newUnit(t, "exporter serve", watchdog)
	orphan := u.orphan(t)
	d := u.start(t)
	eventually(t, func() bool { return d.state() == "backoff" }, "Pebble does not wait for the port")
	require.NoError(t, syscall.Kill(orphan, syscall.SIGSTOP)) // the kernel ends it, by its own watchdog
	d.serving(orphan)
}

// orphan starts the layer's exporter outside of Pebble.
func (u *unit) orphan(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command(u.Path(program), "serve", "--web.listen-address="+u.address, "--path.root="+string(u.gpus), "--web.watchdog=4s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		cmd.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	eventually(t, func() bool { code, _ := u.get("/-/healthy"); return code == 200 }, "it does not answer")
	return cmd.Process.Pid
}
