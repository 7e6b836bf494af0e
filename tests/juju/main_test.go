package juju

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.
	"concourse-ci-machine/internal/charmpack"
	_ "concourse-ci-machine/internal/cli"
	"concourse-ci-machine/internal/sandbox"
)

// built has the unpacked charm, Juju's program behind its hook tools and two
// stand-in releases, made once. Nothing changes it after TestMain.
var built string

func TestMain(m *testing.M) { os.Exit(tests(m)) }

func tests(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "juju-"); err == nil {
		defer os.RemoveAll(built)
		err = build()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func charmDir() string              { return filepath.Join(built, "charm") }
func jujuc() string                 { return filepath.Join(built, "jujuc") }
func standIns() string              { return filepath.Join(built, "bin", "sandbox") }
func release(version string) string { return filepath.Join(built, "concourse-"+version+".tgz") }

// build makes the charm as `make charm` does, except that its programs other
// than dispatch, which nothing here runs, are a few bytes.
func build() error {
	bin := filepath.Join(built, "bin") + string(filepath.Separator)
	for _, c := range []struct{ dir, out, packages string }{
		{"../..", bin, "./src/dispatch ./src/sandbox"},
		{".", jujuc(), "github.com/juju/juju/cmd/jujuc"},
	} {
		cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", c.out}, strings.Fields(c.packages)...)...)
		cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %s: %w\n%s", c.packages, err, out)
		}
	}
	others := []string{"concourse-exporter", "gpu-baseline", "pebble", "rocm-exporter", "runc-amd-wrapper"}
	for _, name := range others { // the packer looks whether they are programs
		if err := os.Link(standIns(), filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	var out strings.Builder
	if charmpack.Run([]string{"tree", "-root", "../..", "-bin", bin, "-arch", runtime.GOARCH, "-version", "test", "-o", charmDir()}, &out, &out) != 0 {
		return fmt.Errorf("cannot unpack the charm: %s", out.String())
	}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(charmDir(), "bin", name), []byte("stands in for "+name+"\n"), 0o755); err != nil {
			return err
		}
	}
	for _, version := range []string{"8.2.5", "8.3.0"} {
		if err := sandbox.StandInRelease(release(version), version); err != nil {
			return err
		}
	}
	return nil
}
