// Package suite is what the suites of tests share: building the programs that they run,
// saying what a machine lacks for them, their own namespaces, and the release of Concourse
// that some of them take. It contains no test of the charm.
package suite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// InFolder runs the tests after build made what they need in a folder that no longer exists
// afterwards. It returns the exit status.
func InFolder(m *testing.M, build func(dir string) error) int {
	dir, err := os.MkdirTemp("", "suite-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755) // other users start what is in it
	}
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Lacks reports which of the tools is not installed, and the packages of Debian that have
// them; "" if all are.
func Lacks(packages string, tools ...string) string {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed (Debian: " + packages + ")"
		}
	}
	return ""
}

// Need skips a test if something is missing.
func Need(t testing.TB, missing string) {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
}

// Without skips, or under `make e2e` fails if the package must be had.
func Without(t testing.TB, debian string) {
	t.Helper()
	why := "not installed (Debian: " + debian + ")"
	if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ","+debian+",") {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Namespaced is a suite that runs in its own namespaces.
type Namespaced struct {
	Name    string // of what is tested: "the web"
	Missing string // why it can't run here; "" when it can
	// Flags are the namespaces apart from the mount namespace (CLONE_NEW...).
	Flags uintptr
	// Outside prepares and returns what the inside is reported, and what ends that. nil:
	// nothing.
	Outside func() (told string, end func() error, err error)
	Inside  func(m *testing.M, told string) int
}

// insideEnv is set in the namespaces.
const insideEnv = "CONCOURSE_CI_MACHINE_TEST_INSIDE"

// Run is the suite's TestMain. If something is missing, `make e2e` fails, and otherwise
// each test is skipped and reports why. This program is run once more in the namespaces:
// when one of the two ends, so does all that the tests started.
func (n Namespaced) Run(m *testing.M) int {
	switch {
	case n.Missing != "" && os.Getenv("E2E") == "1":
		fmt.Fprintf(os.Stderr, "cannot run the tests of %s: %s\n", n.Name, n.Missing)
		return 1
	case n.Missing != "":
		return m.Run()
	}
	if told, inside := os.LookupEnv(insideEnv); inside {
		return n.Inside(m, told)
	}
	code, err := n.enter()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot run the tests of %s: %v\n", n.Name, err)
		return max(code, 1)
	}
	return code
}

func (n Namespaced) enter() (code int, err error) {
	runtime.LockOSThread() // Pdeathsig looks at the thread, and mounts may be its own
	told := ""
	if n.Outside != nil {
		var end func() error
		if told, end, err = n.Outside(); err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), insideEnv+"="+told)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Cloneflags: n.Flags, Pdeathsig: syscall.SIGKILL}
	err = c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
