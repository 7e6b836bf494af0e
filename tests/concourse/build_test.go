//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charmpack"
	releases "concourse-ci-machine/tests/release"
)

// built is where the charm and the sandbox's tools are. Nothing changes it
// after TestMain.
var built string

// build makes the charm as `make charm` does.
func build(dir string) error {
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil { // other users start what is in it
		return err
	}
	bin := filepath.Join(dir, "bin") + string(filepath.Separator)
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", bin,
		"../../src/dispatch", "../../src/runc-amd-wrapper", "../../src/rocm-exporter", "../../src/concourse-exporter", "../../src/gpu-baseline", "../../src/sandbox",
		"../../tests/standin/concourse", "github.com/canonical/pebble/cmd/pebble")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the charm's programs: %w\n%s", err, out)
	}
	var out strings.Builder
	if charmpack.Run([]string{"tree", "-root", "../..", "-bin", bin, "-arch", runtime.GOARCH, "-version", "test", "-o", charmDir()}, &out, &out) != 0 {
		return fmt.Errorf("cannot unpack the charm: %s", out.String())
	}
	return nil
}

func charmDir() string { return filepath.Join(built, "charm") }

// tools is the program behind the hook tools.
func tools() string { return filepath.Join(built, "bin", "sandbox") }

// tarball is the release as it is attached to the application.
var tarball = sync.OnceValues(func() (string, error) {
	path := os.Getenv(releases.Env)
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	made := filepath.Join(built, "concourse.tgz") // where the machines see it
	if !st.IsDir() {
		return made, command("cp", "--reflink=auto", path, made)
	}
	if _, err := os.Stat(filepath.Join(path, "bin/concourse")); err != nil {
		return "", err
	}
	c := exec.Command("tar", "-cf", made, "-I", "gzip -1", "-C", path, "--transform", "s,^\\.,concourse,", ".")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot pack %s: %w\n%s", path, err, out)
	}
	return made, nil
})

// releaseTarball is the tarball of the release to test with.
func releaseTarball(t *testing.T) string {
	t.Helper()
	need(t)
	if os.Getenv(releases.Env) == "" {
		t.Skip(releases.Missing)
	}
	path, err := tarball()
	require.NoError(t, err, "%s is no Concourse release", releases.Env)
	return path
}

// unpacked is the same as a folder, for its help and its fly.
var unpacked = sync.OnceValues(func() (string, error) { return releases.Folder(built) })
