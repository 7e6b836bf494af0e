//go:build e2e

package lxd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.
	"concourse-ci-machine/internal/charmpack"
	_ "concourse-ci-machine/internal/cli"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/tests/standin"
)

// Files of the folder that units see as /opt/parts.
const (
	parts        = "/opt/parts"
	charmFile    = "charm.charm"
	releaseFile  = "concourse.tgz"
	agentProgram = "unitagent"
	hookTools    = "jujuc"
)

// takes prints how long a step took.
func takes(what string, start time.Time) {
	fmt.Printf("%5.1f s  %s\n", time.Since(start).Seconds(), what)
}

// buildParts fills dir: the packed charm, whose dispatch trusts the key of these
// tests in place of AMD's, a release with a stand-in for Concourse, and Juju's
// agent and hook tools.
func buildParts(t *testing.T, dir string, keys *signer) {
	t.Helper()
	scratch := t.TempDir()
	bin := scratch + "/bin/"
	start := time.Now()
	overlay := trust(t, scratch, keys.fingerprint)
	goBuild(t, "../..", "-trimpath", "-overlay", overlay, "-o", bin, "./src/...", "github.com/canonical/pebble/cmd/pebble")
	goBuild(t, "../..", "-trimpath", "-o", scratch+"/concourse", "./tests/standin/concourse")
	var said strings.Builder
	require.Zero(t, charmpack.Run([]string{"pack", "-root", "../..", "-bin", bin, "-arch", runtime.GOARCH, "-version", "test",
		"-o", filepath.Join(dir, charmFile)}, &said, &said), said.String())
	require.NoError(t, standin.Release(filepath.Join(dir, releaseFile), scratch+"/concourse"))
	takes("the charm and a release", start)
	start = time.Now()
	// With the flags of `make test-juju`, whose build cache so serves here.
	goBuild(t, "../juju", "-o", filepath.Join(dir, agentProgram), "./cmd/unitagent")
	goBuild(t, "../juju", "-trimpath", "-o", filepath.Join(dir, hookTools), "github.com/juju/juju/cmd/jujuc")
	takes("Juju's agent and hook tools", start)
	for _, name := range []string{"ctr", "busybox"} { // for the task
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o755))
	}
}

func goBuild(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command("go", append([]string{"build", "-buildvcs=false", "-ldflags=-s -w"}, args...)...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "cannot build %v: %s", args, out)
}

// trust makes a build overlay (go help build) in which AMD's fingerprint is
// another one.
func trust(t *testing.T, dir, fingerprint string) string {
	t.Helper()
	sources, err := filepath.Glob("../../internal/rocm/*.go")
	require.NoError(t, err)
	replace := map[string]string{}
	for i, path := range sources {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		changed := bytes.ReplaceAll(data, []byte(rocm.KeyFingerprint), []byte(fingerprint))
		if bytes.Equal(data, changed) {
			continue
		}
		from, err := filepath.Abs(path)
		require.NoError(t, err)
		replace[from] = filepath.Join(dir, fmt.Sprintf("overlay%d.go", i))
		require.NoError(t, os.WriteFile(replace[from], changed, 0o644))
	}
	require.NotEmpty(t, replace, "AMD's fingerprint is not in internal/rocm")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}
