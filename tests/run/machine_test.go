//go:build e2e

package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpurun"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// machine is a machine with four stand-in GPUs and the lease service.
type machine struct {
	t       *testing.T
	root    host.Root
	nodes   string // folder with a node for each GPU
	socket  *os.File
	service *exec.Cmd
	log     *hosttest.Buffer
}

// newMachine starts the service of a machine, which listens as systemd does for it.
func newMachine(t *testing.T) *machine {
	t.Helper()
	need(t)
	m := &machine{t: t, root: hosttest.Host(t, "mi210x4"), log: &hosttest.Buffer{}}
	for dir := m.root.Path("/"); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755)) // for other users
	}
	m.nodes = m.root.Path("/nodes")
	require.NoError(t, os.MkdirAll(m.nodes, 0o755))
	for i := range 4 {
		path := filepath.Join(m.nodes, strconv.Itoa(i))
		require.NoError(t, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(226, uint32(128+i)))))
		require.NoError(t, os.Chmod(path, 0o666))
	}
	path := m.root.Path(gpurun.Socket)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o666))
	m.socket, err = l.File()
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
	m.start()
	t.Cleanup(func() {
		m.kill()
		m.socket.Close()
		if t.Failed() {
			t.Log(m.log)
		}
	})
	return m
}

// start starts the service with the open socket.
func (m *machine) start() {
	m.service = exec.Command("sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" serve-runs`, gpukit)
	m.service.ExtraFiles = []*os.File{m.socket}
	m.service.Env = append(os.Environ(), "CHARM_ROOT="+string(m.root))
	m.service.Stderr = m.log
	require.NoError(m.t, m.service.Start())
}

// kill ends the service as a crash does.
func (m *machine) kill() {
	_ = m.service.Process.Kill()
	_ = m.service.Wait()
}

// command returns a command of gpukit as a user with this number.
func (m *machine) command(uid int, args ...string) *exec.Cmd {
	c := exec.Command(gpukit, args...)
	c.Env = append(os.Environ(), "CHARM_ROOT="+string(m.root), "NODES="+m.nodes)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	c.Dir = "/"
	return c
}

// result is how a command ended.
type result struct {
	status      int
	out, stderr string
}

// run runs a command of gpukit as root.
func (m *machine) run(args ...string) result { return m.end(m.command(0, args...)) }

// end runs a command until it ends and nothing else has its output open. Both are bounded.
func (m *machine) end(c *exec.Cmd) (r result) {
	m.t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &errs, eventually
	require.NoError(m.t, c.Start())
	limit := time.AfterFunc(eventually, func() { _ = c.Process.Kill() })
	defer limit.Stop()
	err := c.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(m.t, err)
	}
	return result{c.ProcessState.ExitCode(), out.String(), errs.String()}
}

// states returns the leases of the GPUs.
func (m *machine) states() []lease.State {
	m.t.Helper()
	inv, err := gpu.Discover(m.root)
	require.NoError(m.t, err)
	l := lease.Leases{Dir: m.root.Path(lease.DefaultDir)}
	for _, g := range inv.GPUs {
		l.GPUs = append(l.GPUs, g.Address())
	}
	states, _, err := l.Read()
	require.NoError(m.t, err)
	return states
}

// held returns how many GPUs are leased.
func (m *machine) held() (n int) {
	for _, s := range m.states() {
		if s.Held {
			n++
		}
	}
	return n
}

// untilNoGroup waits until no group of a run remains. Other tests may have groups, too.
func (m *machine) untilNoGroup() {
	m.t.Helper()
	groups, err := rungroup.Find()
	require.NoError(m.t, err)
	m.until("no group", func() bool {
		all, err := groups.All()
		log := m.log.String()
		return err == nil && !slices.ContainsFunc(all, func(dir string) bool {
			return strings.Contains(log, strings.TrimPrefix(filepath.Base(dir), "gpukit-"))
		})
	})
}

// until waits for a condition.
func (m *machine) until(what string, ok func() bool) {
	m.t.Helper()
	require.Eventually(m.t, ok, eventually, tick, what)
}

// background starts a run that lasts until end is called or the test is over, and waits for
// the lease.
func (m *machine) background(uid int, args ...string) (c *exec.Cmd, end func()) {
	m.t.Helper()
	c = m.command(uid, append(append([]string{"run"}, args...), "--", "sh", "-c", "echo started; exec sleep 10000")...)
	started := &hosttest.Buffer{}
	c.Stdout, c.Stderr = started, started
	require.NoError(m.t, c.Start())
	end = func() { _ = c.Process.Signal(unix.SIGTERM); _ = c.Wait() }
	m.t.Cleanup(end)
	m.until("a run that begins", func() bool { return strings.Contains(started.String(), "started\n") })
	require.NotContains(m.t, started.String(), "not hidden")
	return c, end
}

// talk sends bytes to the service and returns its last answer.
func (m *machine) talk(data string) gpurun.Reply {
	m.t.Helper()
	c, err := (&net.Dialer{}).DialContext(context.Background(), "unix", m.root.Path(gpurun.Socket))
	require.NoError(m.t, err)
	defer c.Close()
	_, _ = c.Write([]byte(data))
	var r gpurun.Reply
	require.NoError(m.t, json.NewDecoder(c).Decode(&r))
	return r
}
