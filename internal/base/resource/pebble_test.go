package resource

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/canonical/pebble/client"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// TestMain is the service that Pebble runs when it is started as
// `test serve <address> <text>`: it answers with its process id and the text.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "serve" {
		err := http.ListenAndServe(os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "%d %s", os.Getpid(), os.Args[3])
		}))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const awkward = `it's "one" $word [of] several`

func layer(address string) PebbleLayer {
	return PebbleLayer{Path: "/pebble/layers/001-rocm-exporter.yaml", Service: "rocm-exporter", Summary: "metrics of AMD GPUs",
		Command: []string{"/bin/exporter", "serve", address, awkward}, Check: "rocm-exporter-up", URL: "http://" + address + "/-/healthy"}
}

func TestPebbleLayerFile(t *testing.T) {
	f, err := layer("127.0.0.1:9401").File()
	require.NoError(t, err)
	hosttest.Golden(t, "testdata/001-rocm-exporter.yaml", string(f.Data))
}

func TestPebbleLayerThatWouldStopTheDaemonIsRefused(t *testing.T) {
	for name, change := range map[string]func(*PebbleLayer){
		"short name": func(l *PebbleLayer) { l.Service = "f" }, "underscore": func(l *PebbleLayer) { l.Service = "rocm_exporter" },
		"path": func(l *PebbleLayer) { l.Service = "../../etc/x" }, "no command": func(l *PebbleLayer) { l.Command = nil },
		"bracket": func(l *PebbleLayer) { l.Command = append(l.Command, "[") },
	} {
		l := layer("127.0.0.1:1")
		change(&l)
		_, err := l.File()
		require.ErrorContains(t, err, "cannot make Pebble layer", name)
	}
}

func TestStoppedPebbleIsReported(t *testing.T) {
	dir, err := os.MkdirTemp("", "pb") // a socket's path has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := host.Root(dir)
	_, err = PebbleServices(context.Background(), r, "/none")
	require.ErrorIs(t, err, errNoPebble)
	hosttest.Put(t, r, "/file", "")
	_, err = PebbleServices(context.Background(), r, "/file")
	require.ErrorIs(t, err, errNoPebble)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.Path("/stale"), Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	_, err = PebbleServices(context.Background(), r, "/stale")
	require.ErrorIs(t, err, errNoPebble)

	silent, err := net.Listen("unix", r.Path("/silent")) // takes connections and reports nothing
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for range 2 {
			if _, err := silent.Accept(); err != nil {
				break
			}
		}
		cancel()
	}()
	_, err = PebbleServices(ctx, r, "/silent")
	require.ErrorIs(t, err, context.Canceled)
}

// The real daemon reads the layer, keeps the service up and ends cleanly.
func TestPebbleRunsTheLayer(t *testing.T) {
	dir, err := os.MkdirTemp("", "pb")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	pebble := filepath.Join(dir, "bin")
	out, err := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", pebble,
		"github.com/canonical/pebble/cmd/pebble").CombinedOutput()
	require.NoError(t, err, string(out))

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	l := layer(address)
	l.Command[0], err = os.Executable()
	require.NoError(t, err)
	h := host.Host{Root: host.Root(dir), Runner: hosttest.NewRunner(t)}
	l.Helper, l.HelperCommand = "gpu-reports", []string{"/bin/sh", "-c", `id -u > "$0"; exec sleep 3600`, h.Path("/helper's file")}
	f, err := l.File()
	require.NoError(t, err)
	apply(t, h, f)

	daemon := exec.Command(pebble, "run")
	var log bytes.Buffer
	daemon.Env = append(os.Environ(), "PEBBLE="+h.Path("/pebble"))
	daemon.Stdout, daemon.Stderr = &log, &log
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, daemon.Start())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	t.Cleanup(func() {
		daemon.Process.Kill()
		if t.Failed() {
			t.Log(log.String())
		}
	})

	serving := func() (pid int, text string) {
		resp, err := http.Get("http://" + address + "/")
		if err != nil {
			return 0, ""
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		fmt.Sscan(string(body), &pid)
		_, text, _ = strings.Cut(string(body), " ")
		return pid, text
	}
	var first int
	require.Eventually(t, func() bool { first, _ = serving(); return first != 0 }, time.Minute, 20*time.Millisecond)
	t.Cleanup(func() { // a service has its own process group
		if pid, _ := serving(); pid != 0 {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	_, text := serving()
	require.Equal(t, awkward, text, "the argument arrives as one word")

	const socket = "/pebble/.pebble.socket"
	c, err := client.New(&client.Config{Socket: h.Path(socket), DisableKeepAlive: true})
	require.NoError(t, err)
	checked, err := c.RefreshCheck(&client.RefreshCheckOptions{Name: l.Check})
	require.NoError(t, err)
	require.Empty(t, checked.Error, "the check reaches the service")
	require.Eventually(t, func() bool {
		user, err := h.ReadText("/helper's file")
		return err == nil && user == fmt.Sprint(os.Geteuid())
	}, time.Minute, 20*time.Millisecond, "the helper runs as Pebble's own user")
	want := PebbleState{Services: map[string]string{l.Service: "active", l.Helper: "active"}, Checks: map[string]string{l.Check: "up"}}
	state, err := PebbleServices(context.Background(), h.Root, socket)
	require.NoError(t, err)
	require.Equal(t, want, state)

	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.Eventually(t, func() bool { pid, _ := serving(); return pid != 0 && pid != first },
		time.Minute, 20*time.Millisecond, "a killed service is started again")
	require.Eventually(t, func() bool {
		state, err := PebbleServices(context.Background(), h.Root, socket)
		return err == nil && state.Services[l.Service] == "active"
	}, time.Minute, 20*time.Millisecond)

	require.NoError(t, daemon.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-ended, "SIGTERM ends the daemon with exit 0")
	pid, _ := serving()
	require.Zero(t, pid, "the service ended with it")
	_, err = PebbleServices(context.Background(), h.Root, socket)
	require.ErrorIs(t, err, errNoPebble)
}
