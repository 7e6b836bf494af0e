//go:build e2e

package run

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpurun"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// Users without a name, so that no account of this machine is theirs.
const ada, bob = 54321, 54322

func TestKilledClientLeavesNoLease(t *testing.T) {
	m := newMachine(t)
	c, _ := m.background(ada, "--gpus", "2")
	require.Equal(t, 2, m.held())
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	m.until("free GPUs", func() bool { return m.held() == 0 })
	m.until("a line", func() bool { // the service writes it after the signal
		return strings.Contains(m.log.String(), "sent SIGTERM to 1 process that remained of run-")
	})
}

// Runs go on without a service, those that wait keep their places, and the next service
// ends what the first one left.
func TestKilledServiceLosesNothing(t *testing.T) {
	m := newMachine(t)
	first, _ := m.background(ada, "--gpus", "4")
	second := m.command(bob, "run", "--gpus", "4", "--", "echo", "second")
	third := m.command(ada, "run", "--", "echo", "third")
	var both strings.Builder
	var mu sync.Mutex
	for _, c := range []*exec.Cmd{second, third} {
		c.Stdout = writer(func(p []byte) {
			mu.Lock()
			defer mu.Unlock()
			both.Write(p)
		})
		require.NoError(t, c.Start())
		m.until("two clients that started one after the other", func() bool {
			return process(t, c.Process.Pid).Start > process(t, first.Process.Pid).Start
		})
	}
	m.kill()
	require.Equal(t, 4, m.held())
	m.start()
	require.NoError(t, first.Process.Kill()) // its command remains
	_ = first.Wait()
	require.NoError(t, second.Wait())
	require.NoError(t, third.Wait())
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, both.String(), "second\n")
	require.Contains(t, both.String(), "third\n")
	m.until("free GPUs", func() bool { return m.held() == 0 })
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func TestNoServiceNamesTheFix(t *testing.T) {
	m := newMachine(t)
	m.kill()
	require.NoError(t, os.Remove(m.root.Path(gpurun.Socket)))
	r := m.run("run", "--", "true")
	require.Equal(t, 125, r.status)
	require.Contains(t, r.stderr, "run: sudo systemctl start gpukit-run.socket")
}

func TestUserWithoutTheGroupIsRefused(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, os.Chmod(m.root.Path(gpurun.Socket), 0o660))
	r := m.end(m.command(ada, "run", "--", "true"))
	require.Equal(t, 125, r.status)
	require.Contains(t, r.stderr, "sudo usermod -aG render $USER")
}

// A group is of no use to a user of a machine without a GPU.
func TestMissingGPUIsNamedBeforeTheGroup(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, os.Chmod(m.root.Path(gpurun.Socket), 0o660))
	require.NoError(t, os.RemoveAll(m.root.Path("/sys")))
	r := m.end(m.command(ada, "run", "--", "true"))
	require.Equal(t, 125, r.status)
	require.Contains(t, r.stderr, "cannot lease GPUs: this machine has no AMD GPU; see gpukit gpu list")
	require.NotContains(t, r.stderr, "usermod")
}

// A user leases for no process of another user, and for none that has another user's rights.
func TestUserLeasesOnlyForOwnProcesses(t *testing.T) {
	m := newMachine(t)
	other := exec.Command("setpriv", "--reuid", itoa(bob), "--clear-groups", "sleep", "10000")
	mixed := exec.Command("setpriv", "--ruid", itoa(ada), "--euid", itoa(bob), "sleep", "10000")
	for _, c := range []*exec.Cmd{other, mixed} {
		require.NoError(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		m.until("a changed user", func() bool {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
			return err == nil && strings.Contains(string(text), itoa(bob)) && strings.Contains(string(text), "Name:\tsleep")
		})
	}
	for pid, text := range map[int]string{other.Process.Pid: "another user's", mixed.Process.Pid: "another user's",
		1: "cannot lease GPUs"} {
		r := m.end(m.command(ada, "lease", "--pid", itoa(pid)))
		require.Equal(t, 125, r.status, r.out)
		require.Contains(t, r.stderr, text)
	}
	// A process with the number of one that ended.
	r := m.talk(fmt.Sprintf(`{"version":1,"gpus":1,"process":{"pid":%d,"start":1}}`+"\n", other.Process.Pid))
	require.Contains(t, r.Refused, "has ended")
	require.Zero(t, m.held())
	for _, pid := range []int{other.Process.Pid, mixed.Process.Pid} {
		groups, err := rungroup.Find()
		require.NoError(t, err)
		run, err := groups.RunOf(pid)
		require.NoError(t, err)
		require.Empty(t, run)
	}
}

func TestJunkIsRefused(t *testing.T) {
	m := newMachine(t)
	for name, junk := range map[string]string{
		"text":      "GET / HTTP/1.1\r\n\r\n",
		"binary":    "\x00\xff\xfe\n",
		"a list":    "[[[[[[[[[[[[[[[[[[[[\n",
		"long":      strings.Repeat("x", 1<<16),
		"long JSON": `{"version":1,"gpus":1,"title":"` + strings.Repeat("x", 1<<16) + `"}` + "\n",
		"deep":      strings.Repeat(`{"a":`, 5000) + "\n",
		"too many":  `{"version":1,"gpus":1000000000}` + "\n",
		"negative":  `{"version":1,"gpus":1,"process":{"pid":-1}}` + "\n",
		"old":       `{"version":0,"gpus":1}` + "\n",
	} {
		require.NotEmpty(t, m.talk(junk).Refused, name)
	}
	require.Equal(t, 0, m.run("run", "--", "true").status)
}

// One user cannot take all connections.
func TestConnectionsOfAUserAreBounded(t *testing.T) {
	m := newMachine(t)
	var all []net.Conn
	end := func() {
		for _, c := range all {
			c.Close()
		}
		all = nil
	}
	m.until("a refusal", func() bool {
		end()           // on a busy machine the service gives up the first ones before the last one comes
		for range 300 { // more than a user may have
			c, err := net.Dial("unix", m.root.Path(gpurun.Socket))
			if err != nil {
				return false
			}
			all = append(all, c)
		}
		return strings.Contains(m.talk("x\n").Refused, "end some first")
	})
	require.Equal(t, 0, m.end(m.command(ada, "run", "--", "true")).status, "another user's turn")
	end()
	m.until("room", func() bool { return m.run("run", "--", "true").status == 0 })
}

// A run in a run would see no GPU.
func TestRunInARunIsRefused(t *testing.T) {
	m := newMachine(t)
	r := m.run("run", "--", gpukit, "run", "--", "true")
	require.Equal(t, 125, r.status)
	require.Contains(t, r.stderr, "run the command without gpukit run")
}

// Many at once, some of which are killed: no GPU has two runs, and none stays leased.
func TestManyRunsAtOnceShareNoGPU(t *testing.T) {
	m := newMachine(t)
	dir := m.root.Path("/locks")
	require.NoError(t, os.Mkdir(dir, 0o777))
	require.NoError(t, os.Chmod(dir, 0o777))
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			// mkdir fails if another run has the GPU, as its node shows.
			c := m.command(ada+i%2, "run", "--gpus", itoa(1+i%3), "--", "sh", "-c", `
got=$(`+strings.TrimSuffix(nodes, "; ")+` | tr -d ' ')
for n in $got; do mkdir `+dir+`/$n || { echo shared $n; exit 9; }; done
if [ $0 = kill ]; then for n in $got; do rmdir `+dir+`/$n; done; kill -KILL $PPID; exit; fi
for n in $got; do rmdir `+dir+`/$n; done`, map[bool]string{true: "kill", false: "end"}[i%5 == 0])
			r := m.end(c)
			want := 0
			if i%5 == 0 {
				want = -1
			}
			if r.status != want || r.out != "" {
				t.Errorf("run %d: %d %s%s", i, r.status, r.out, r.stderr)
			}
		})
	}
	all.Wait()
	m.until("free GPUs", func() bool { return m.held() == 0 })
}

// Signals reach the command, and its end is the run's.
func TestSignalsReachTheCommand(t *testing.T) {
	m := newMachine(t)
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1} {
		name := strings.TrimPrefix(unix.SignalName(s), "SIG")
		c := m.command(ada, "run", "--", "sh", "-c",
			`trap 'echo got; exit 5' `+name+`; echo ready; while :; do sleep .1; done`)
		c.SysProcAttr.Setsid = true // no terminal
		var mu sync.Mutex
		var out strings.Builder
		c.Stdout = writer(func(p []byte) { mu.Lock(); defer mu.Unlock(); out.Write(p) })
		require.NoError(t, c.Start())
		m.until("a command", func() bool { mu.Lock(); defer mu.Unlock(); return strings.Contains(out.String(), "ready") })
		require.NoError(t, c.Process.Signal(s))
		require.Error(t, c.Wait())
		require.Equal(t, 5, c.ProcessState.ExitCode(), name)
		require.Equal(t, "ready\ngot\n", out.String())
	}
}
