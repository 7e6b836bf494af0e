//go:build e2e

package rocm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.
	"concourse-ci-machine/internal/charmpack"
	_ "concourse-ci-machine/internal/cli"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/internal/sandbox"
	"concourse-ci-machine/tests/debian"
)

// insideEnv is set in the namespaces of the tests: the folder of all they make.
const insideEnv = "ROCM_TEST_INSIDE"

// missing says why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed for a chroot"
	}
	if runtime.GOARCH != "amd64" {
		return "AMD has packages for amd64 only"
	}
	for _, tool := range []string{"debootstrap", "gpg", "dpkg-deb", "apt-get", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed (Debian: debootstrap gpg dpkg golang)"
		}
	}
	return ""
}

func need(t *testing.T) {
	t.Helper()
	if why := missing(); why != "" {
		t.Skip(why)
	}
}

func TestMain(m *testing.M) {
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	why := missing()
	switch {
	case why != "" && os.Getenv("E2E") == "1":
		fmt.Fprintln(os.Stderr, "cannot run the tests with apt:", why)
		os.Exit(1)
	case why != "":
		os.Exit(m.Run()) // each test skips and says why
	case os.Getenv(insideEnv) != "":
		os.Exit(inside(m))
	}
	code, err := enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run the tests with apt:", err)
		code = cmp.Or(code, 1)
	}
	os.Exit(code)
}

// enter runs this test program once more in mount and process namespaces of its
// own. When one of the two ends, so does all that the tests started.
func enter() (int, error) {
	dir, err := os.MkdirTemp("", "rocm-test-")
	if err != nil {
		return 1, err
	}
	defer os.Remove(dir)   // empty: the tmpfs on it was the namespace's
	runtime.LockOSThread() // Pdeathsig looks at the thread
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), insideEnv+"="+dir)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC, Pdeathsig: syscall.SIGKILL}
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return cmp.Or(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// The parts of the folder that all tests share. Nothing changes them after
// TestMain.
var (
	top   string // the tmpfs
	keys  struct{ good, other *signer }
	stock map[string]*deb // by name and version, "amd-container-toolkit 1.2.0"
)

func baseDir() string  { return filepath.Join(top, "base") }
func charmDir() string { return filepath.Join(top, "charm") }
func tools() string    { return filepath.Join(top, "bin", "sandbox") }

func inside(m *testing.M) int {
	top = os.Getenv(insideEnv)
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
	os.Setenv("TMPDIR", tmp) // units are made on the tmpfs, where a chroot finds them
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
	overlay, err := trustTestKey()
	if err != nil {
		return err
	}
	bin := filepath.Join(top, "bin") + string(filepath.Separator)
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-overlay", overlay, "-o", bin,
		"../../src/dispatch", "../../src/runc-amd-wrapper", "../../src/rocm-exporter", "../../src/concourse-exporter", "../../src/gpu-baseline", "../../src/sandbox", "github.com/canonical/pebble/cmd/pebble")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the charm's programs: %w\n%s", err, out)
	}
	var out strings.Builder
	if charmpack.Run([]string{"tree", "-root", "../..", "-bin", bin, "-arch", runtime.GOARCH, "-version", "test", "-o", charmDir()}, &out, &out) != 0 {
		return fmt.Errorf("cannot unpack the charm: %s", out.String())
	}
	for _, name := range []string{"concourse-exporter", "gpu-baseline", "pebble", "rocm-exporter", "runc-amd-wrapper"} { // nothing here runs them
		if err := os.WriteFile(filepath.Join(charmDir(), "bin", name), []byte("stands in for "+name+"\n"), 0o755); err != nil {
			return err
		}
	}
	return sandbox.StandInRelease(filepath.Join(top, "concourse.tgz"), "8.2.5")
}

// trustTestKey is a build overlay (go help build) in which AMD's fingerprint is
// the test key's.
func trustTestKey() (string, error) {
	sources, err := filepath.Glob("../../internal/rocm/*.go")
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for i, path := range sources {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		changed := bytes.ReplaceAll(data, []byte(rocm.KeyFingerprint), []byte(keys.good.fingerprint))
		if bytes.Equal(data, changed) {
			continue
		}
		from, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[from] = filepath.Join(top, fmt.Sprintf("overlay%d.go", i))
		if err := os.WriteFile(replace[from], changed, 0o644); err != nil {
			return "", err
		}
	}
	if len(replace) == 0 {
		return "", errors.New("cannot have a key of the test's own: AMD's fingerprint is not in internal/rocm")
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(top, "overlay.json")
	return path, os.WriteFile(path, data, 0o644)
}
