//go:build e2e

package lxd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	"github.com/stretchr/testify/require"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.
	_ "github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	"github.com/fourdollars/concourse-ci-machine/tests/standin"
	"github.com/fourdollars/concourse-ci-machine/tools/charmpack"
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
	trusting, err := suite.Trusting(scratch, keys.fingerprint)
	require.NoError(t, err)
	require.NoError(t, suite.Build(bin, trusting, "./src/...", suite.Pebble))
	require.NoError(t, suite.Driver(bin))
	require.NoError(t, suite.Build(scratch, "./tests/standin/concourse"))
	var said strings.Builder
	require.Zero(t, charmpack.Run([]string{"pack", "-root", "../..", "-bin", bin, "-arch", runtime.GOARCH, "-version", "test",
		"-o", filepath.Join(dir, charmFile)}, &said, &said), said.String())
	require.NoError(t, standin.Release(filepath.Join(dir, releaseFile), scratch+"/concourse"))
	takes("the charm and a release", start)
	start = time.Now()
	require.NoError(t, suite.BuildIn("../juju", dir, "./cmd/"+agentProgram, "github.com/juju/juju/cmd/"+hookTools))
	takes("Juju's agent and hook tools", start)
	for _, name := range []string{"ctr", "busybox"} { // for the task
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o755))
	}
}
