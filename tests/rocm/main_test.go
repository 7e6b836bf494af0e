//go:build e2e

package rocm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	"golang.org/x/sys/unix"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.

	_ "github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// missing reports why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for a chroot"
	}
	if runtime.GOARCH != "amd64" {
		return "AMD has packages for amd64 only"
	}
	return suite.Lacks("debootstrap gpg dpkg golang", "debootstrap", "gpg", "dpkg-deb", "apt-get", "go")
}

func need(t *testing.T) { suite.Need(t, missing()) }

func TestMain(m *testing.M) {
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	os.Exit(suite.Namespaced{Name: "apt", Missing: missing(), Flags: syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC, Outside: folder, Inside: inside}.Run(m))
}

// folder holds all that is made: the mount of the namespace.
func folder() (string, func() error, error) {
	dir, err := os.MkdirTemp("", "rocm-test-")
	return dir, func() error { return os.Remove(dir) }, err // empty: the tmpfs on it no longer exists
}

// The parts of the folder that all tests share. Nothing changes them after
// TestMain.
var (
	top   string // the tmpfs
	keys  struct{ good, other *signer }
	stock map[string]*deb // by name and version, "amd-container-toolkit 1.1.0"
)

func baseDir() string  { return filepath.Join(top, "base") }
func charmDir() string { return filepath.Join(top, "charm") }
func tools() string    { return filepath.Join(top, "bin", "sandbox") }

func inside(m *testing.M, dir string) int {
	top = dir
	err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func prepare() error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	// apt and dpkg sync every file; in memory that costs nothing.
	if err := unix.Mount("tmpfs", top, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("cannot mount a tmpfs: %w", err)
	}
	tmp := filepath.Join(top, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	made := make(chan error, 1)
	go func() { made <- makeDebian() }()
	err := makeKeys()
	if err == nil {
		stock, err = makeStock()
	}
	if err == nil {
		err = build()
	}
	os.Setenv("TMPDIR", tmp) // units are made on the tmpfs, in which a chroot finds them
	return errors.Join(err, <-made)
}

// makeDebian makes the root that all units lie over.
func makeDebian() error {
	ctx := context.Background() // it ends with this program
	base, err := debian.Base(ctx)
	if err != nil {
		return err
	}
	if err := debian.Unpack(ctx, base, baseDir()); err != nil {
		return err
	}
	// What dispatch opens at its own path, a chroot has there too.
	return os.MkdirAll(filepath.Join(baseDir(), top), 0o755)
}

// build makes the charm as `make charm` does, except that its dispatch trusts
// the key of these tests in place of AMD's.
func build() error {
	trusting, err := suite.Trusting(top, keys.good.fingerprint)
	if err == nil {
		err = suite.LightCharm(top, trusting) // nothing here runs the others
	}
	return cmp.Or(err, sandbox.StandInRelease(filepath.Join(top, "concourse.tgz"), "8.2.5"))
}
