//go:build e2e

package web

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	releases "concourse-ci-machine/tests/release"
)

const (
	insideEnv = "WEB_TEST_INSIDE"
	patience  = time.Minute // bounds each wait
	tick      = 50 * time.Millisecond
)

// missing says why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for namespaces"
	}
	for _, tool := range []string{"ss", "ip", "setpriv", "mount", "useradd"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed (Debian: iproute2 util-linux mount passwd)"
		}
	}
	if postgresBin() == "" {
		return "PostgreSQL is not installed (Debian: postgresql)"
	}
	return ""
}

// postgresBin is the newest PostgreSQL's folder of programs.
func postgresBin() string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

func need(t *testing.T) {
	t.Helper()
	if why := missing(); why != "" {
		t.Skip(why)
	}
}

// named is the folder of the release to test with, "" without one.
var named string

func releaseDir(t *testing.T) string {
	t.Helper()
	need(t)
	if named == "" {
		t.Skip(releases.Missing)
	}
	return named
}

func TestMain(m *testing.M) {
	why := missing()
	switch {
	case why != "" && os.Getenv("E2E") == "1":
		fmt.Fprintln(os.Stderr, "cannot run the tests of the web:", why)
		os.Exit(1)
	case why != "":
		os.Exit(m.Run()) // each test skips and says why
	case os.Getenv(insideEnv) != "":
		for _, argv := range [][]string{{"mount", "-t", "proc", "proc", "/proc"}, {"ip", "link", "set", "lo", "up"}} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "cannot set up the namespaces: %v: %s\n", argv, out)
				os.Exit(1)
			}
		}
		os.Exit(inside(m))
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), insideEnv+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the tests of the web:", err)
		os.Exit(1)
	}
}

// inside runs the tests with the release, unpacked where it is a tarball.
func inside(m *testing.M) int {
	dir, err := os.MkdirTemp("", "web-test-release-")
	if err == nil {
		defer os.RemoveAll(dir)
		named, err = releases.Folder(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
