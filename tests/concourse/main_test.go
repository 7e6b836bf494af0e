//go:build e2e

package concourse

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.
	_ "concourse-ci-machine/internal/charm/cli"
)

const (
	insideEnv  = "CONCOURSE_TEST_INSIDE"  // set in the namespaces of the tests
	machineEnv = "CONCOURSE_TEST_MACHINE" // set in a machine's process 1: its World's folder
	releaseEnv = "CONCOURSE_RELEASE"
	patience   = 2 * time.Minute // bounds each wait
	tick       = 50 * time.Millisecond
)

// missing says why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for namespaces"
	}
	for _, tool := range []string{"ip", "iptables", "ss", "mount", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed (Debian: iproute2 iptables mount golang)"
		}
	}
	if postgresBin() == "" {
		return "PostgreSQL is not installed (Debian: postgresql)"
	}
	return ""
}

func need(t *testing.T) {
	t.Helper()
	if why := missing(); why != "" {
		t.Skip(why)
	}
}

// until waits for something to become true, asking in the test's own goroutine.
func until(t *testing.T, is func() bool, why ...any) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(tick) {
		if time.Now().After(end) {
			require.Fail(t, "it did not become true in "+patience.String(), why...)
		}
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(machineEnv) != "" && os.Getpid() == 1 {
		fmt.Fprintln(os.Stderr, "a machine ends:", runMachine(os.Getenv(machineEnv)))
		os.Exit(1)
	}
	if code, done := runTool(); done {
		os.Exit(code)
	}
	// CNI and iptables are where a user's PATH may not lead.
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	why := missing()
	switch {
	case why != "" && os.Getenv("E2E") == "1":
		fmt.Fprintln(os.Stderr, "cannot run the tests of Concourse:", why)
		os.Exit(1)
	case why != "":
		os.Exit(m.Run()) // each test skips and says why
	case os.Getenv(insideEnv) != "":
		os.Exit(inside(m))
	}
	code, err := enter()
	if err = errors.Join(err, leaveCgroups()); err != nil {
		fmt.Fprintln(os.Stderr, "cannot run the tests of Concourse:", err)
		code = cmp.Or(code, 1)
	}
	os.Exit(code)
}

// enter runs this test program once more in namespaces of its own. When one of
// the two ends, so does all that the tests started.
func enter() (int, error) {
	runtime.LockOSThread() // Pdeathsig looks at the thread
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), insideEnv+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC, Pdeathsig: syscall.SIGKILL}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return cmp.Or(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// inside prepares the network that the machines are connected by.
func inside(m *testing.M) int {
	for _, argv := range [][]string{{"mount", "-t", "proc", "proc", "/proc"}, {"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", "br0", "type", "bridge"}, {"ip", "address", "add", gateway + "/24", "dev", "br0"}, {"ip", "link", "set", "br0", "up"}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cannot set up the namespaces: %v: %s\n", argv, out)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "concourse-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// leaveCgroups takes away the control groups that Concourse made for its
// containers; none of them has a process any more. Those of another Concourse
// on this machine are in use and stay.
func leaveCgroups() error {
	var groups []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "garden" {
			groups = append(groups, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile
		}
		return err
	})
	for _, top := range groups {
		var all []string
		filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(all) {
			if rm := os.Remove(dir); rm != nil && !errors.Is(rm, syscall.EBUSY) && !errors.Is(rm, fs.ErrNotExist) {
				err = errors.Join(err, rm)
			}
		}
	}
	return err
}
