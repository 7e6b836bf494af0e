//go:build e2e

package runners

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpurun"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// hooks has the files of the package.
const hooks = "../../tools/packages/gpukit/runners"

// user runs the jobs.
const user = 1234

// bin is a folder with the built gpukit.
var bin string

func TestMain(m *testing.M) {
	if why := missing(); why != "" {
		if os.Getenv("E2E") == "1" {
			fmt.Fprintln(os.Stderr, "cannot run the tests of runners:", why)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	os.Exit(suite.InFolder(m, func(dir string) error {
		bin = dir
		return suite.Build(dir, "./src/gpukit", "./src/runc-amd-wrapper")
	}))
}

func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for control groups"
	}
	return ""
}

// machine is a machine with four stand-in GPUs, the lease service, and a folder of the user
// who runs the jobs.
type machine struct {
	t    *testing.T
	root host.Root
	home string
	log  *hosttest.Buffer
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	suite.Need(t, missing())
	m := &machine{t: t, root: hosttest.Host(t, "mi210x4"), log: &hosttest.Buffer{}}
	m.home = m.root.Path("/home/ci")
	require.NoError(t, os.MkdirAll(m.home, 0o755))
	for dir := m.home; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755)) // for the user
	}
	require.NoError(t, os.Chown(m.home, user, user))
	into := m.root.Path("/usr/share/gpukit/runners")
	require.NoError(t, os.MkdirAll(into, 0o755))
	require.NoError(t, os.CopyFS(into, os.DirFS(hooks)))

	path := m.root.Path(gpurun.Socket)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o666))
	socket, err := l.File()
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
	service := exec.Command("sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" serve-runs`, bin+"/gpukit")
	service.ExtraFiles = []*os.File{socket}
	service.Env = append(os.Environ(), "CHARM_ROOT="+string(m.root))
	service.Stderr = m.log
	require.NoError(t, service.Start())
	t.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait()
		socket.Close()
		if t.Failed() {
			t.Log(m.log)
		}
	})
	return m
}

// write writes a file of the user, which can be run.
func (m *machine) write(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.home, name)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte(text), 0o755))
	for p := path; p != m.home; p = filepath.Dir(p) {
		require.NoError(m.t, os.Chown(p, user, user))
	}
	return path
}

// shellAs copies bash to a file with another name. A program is recognized by its file.
func (m *machine) shellAs(name string) string {
	m.t.Helper()
	bash, err := exec.LookPath("bash")
	require.NoError(m.t, err)
	return m.copy(bash, name)
}

// copy copies a program, so that the user can run it.
func (m *machine) copy(program, name string) string {
	m.t.Helper()
	data, err := os.ReadFile(program)
	require.NoError(m.t, err)
	return m.write(name, string(data))
}

// command returns a command of the user who runs the jobs. Its hooks are those of the machine.
func (m *machine) command(env []string, argv ...string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append([]string{"PATH=" + bin + ":" + m.home + "/tools:/usr/bin:/bin", "CHARM_ROOT=" + string(m.root),
		"LANG=C.UTF-8"}, env...)
	c.Dir = m.home
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	return c
}

// run runs a command of the user and returns its output and exit status.
func (m *machine) run(env []string, argv ...string) (string, int) {
	m.t.Helper()
	c := m.command(env, argv...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		require.NoError(m.t, err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// gpukit runs gpukit as root.
func (m *machine) gpukit(args ...string) string {
	m.t.Helper()
	c := exec.Command(bin+"/gpukit", args...)
	c.Env = append(os.Environ(), "CHARM_ROOT="+string(m.root))
	out, err := c.CombinedOutput()
	require.NoError(m.t, err, string(out))
	return string(out)
}

// addresses returns the names of the GPUs.
func (m *machine) addresses() (names []string) {
	m.t.Helper()
	inv, err := gpu.Discover(m.root)
	require.NoError(m.t, err)
	for _, g := range inv.GPUs {
		names = append(names, g.Address())
	}
	return names
}

// held returns the titles of the leases.
func (m *machine) held() (titles []string) {
	m.t.Helper()
	l := lease.Leases{Dir: m.root.Path(lease.DefaultDir), GPUs: m.addresses()}
	states, _, err := l.Read()
	require.NoError(m.t, err)
	for _, s := range states {
		if s.Held {
			titles = append(titles, s.Title)
		}
	}
	return titles
}

// free waits until no GPU is leased.
func (m *machine) free() {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return len(m.held()) == 0 }, 2*time.Minute, 20*time.Millisecond)
}

// kill ends a process as a crash does.
func kill(t *testing.T, c *exec.Cmd) {
	t.Helper()
	require.NoError(t, unix.Kill(c.Process.Pid, unix.SIGKILL))
	_ = c.Wait()
}

func itoa(n int) string { return strconv.Itoa(n) }
