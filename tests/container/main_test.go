//go:build e2e

package container

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

const (
	insideEnv  = "CONTAINER_TEST_INSIDE" // the directory with what was built
	laterEnv   = "CONTAINER_TEST_RUNC"   // a runc of laterRunc, empty if it could not be built
	dirOfTests = "container-test-"
	laterRunc  = "1.4.0"
)

// missing reports why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed to make containers"
	}
	if lacks := suite.Lacks("runc busybox-static util-linux", "runc", "busybox", "nsenter", "go"); lacks != "" {
		return lacks
	}
	if _, err := suite.Minors(); err != nil {
		return err.Error()
	}
	return ""
}

func need(t *testing.T) { suite.Need(t, missing()) }

func TestMain(m *testing.M) {
	why := missing()
	switch {
	case why != "" && os.Getenv("E2E") == "1":
		fmt.Fprintln(os.Stderr, "cannot run the container tests:", why)
		os.Exit(1)
	case why != "":
		os.Exit(m.Run()) // each test skips and reports why
	case os.Getenv(insideEnv) != "":
		if err := suite.OwnDev(os.Getenv(insideEnv)); err != nil {
			fmt.Fprintln(os.Stderr, "cannot set up /dev:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code, err := again()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the container tests:", err)
		code = 1
	}
	os.Exit(code)
}

// again builds the wrapper and what tasks run, and runs this test program once more in its
// own mount namespace.
func again() (int, error) {
	dir, err := os.MkdirTemp("", dirOfTests)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // containers' users pass through
		return 0, err
	}
	if err := suite.Build(dir, "./src/runc-amd-wrapper", "./tests/container/hostile", "./tests/container/tlsclient"); err != nil {
		return 0, err
	}
	if err := os.Symlink("runc-amd-wrapper", filepath.Join(dir, "runc")); err != nil { // as Concourse finds it
		return 0, err
	}
	later, err := buildRunc()
	if err != nil && os.Getenv("E2E") == "1" {
		return 0, err
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "without runc", laterRunc+":", err)
	}
	if later != "" { // if a nested machine's root can reach it
		data, err := os.ReadFile(later)
		if err != nil {
			return 0, err
		}
		later = filepath.Join(dir, "runc-"+laterRunc)
		if err := os.WriteFile(later, data, 0o755); err != nil {
			return 0, err
		}
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), insideEnv+"="+dir, laterEnv+"="+later)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return runAndReap(c)
}

// runAndReap runs a program, and takes in what it leaves behind: the containers' first
// processes, which runc waits for when it deletes one. Not every machine's own first
// process does that at once.
func runAndReap(c *exec.Cmd) (int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	return suite.RunAndReap(c)
}

// buildRunc builds a runc newer than Debian's from the module proxy, once: it
// stays in the user's cache. It needs a C compiler, and no libseccomp, since no
// container of these tests has a seccomp profile.
func buildRunc() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "concourse-ci-machine-tests", "runc-"+laterRunc)
	path := filepath.Join(dir, "runc")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	c := exec.Command("go", "install", "-trimpath", "-buildvcs=false", "github.com/opencontainers/runc@v"+laterRunc)
	c.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=1", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build runc %s (Debian: gcc libc6-dev): %w\n%s", laterRunc, err, out)
	}
	return path, nil
}
