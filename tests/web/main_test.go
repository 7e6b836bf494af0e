//go:build e2e

package web

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

const (
	patience = time.Minute // bounds each wait
	tick     = 50 * time.Millisecond
)

// missing reports why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for namespaces"
	}
	if lacks := suite.Lacks("iproute2 util-linux mount passwd", "ss", "ip", "setpriv", "mount", "useradd"); lacks != "" {
		return lacks
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

func need(t *testing.T) { suite.Need(t, missing()) }

// named is the folder of the release to test with, "" without one.
var named string

func releaseDir(t *testing.T) string {
	t.Helper()
	need(t)
	if named == "" {
		t.Skip(suite.NoRelease)
	}
	return named
}

func TestMain(m *testing.M) {
	os.Exit(suite.Namespaced{Name: "the web", Missing: missing(), Flags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Inside: inside}.Run(m))
}

// inside runs the tests with the release, unpacked if it is a tarball.
func inside(m *testing.M, _ string) int {
	return suite.InFolder(m, func(dir string) (err error) {
		for _, argv := range [][]string{{"mount", "-t", "proc", "proc", "/proc"}, {"ip", "link", "set", "lo", "up"}} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("cannot set up the namespaces: %v: %s", argv, out)
			}
		}
		named, err = suite.ReleaseFolder(dir)
		return err
	})
}
