//go:build e2e

package windows

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/fly"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// pipeline has a task without inputs. Its folder, inputs and outputs are symbolic links, which
// Wine 8 only pretends to make, and copies of volumes need robocopy, which it lacks. With an
// output, the folder exists also without the link.
const pipeline = `
jobs:
- name: hello
  plan:
  - task: hello
    tags: [windows]
    config:
      platform: windows
      outputs: [{name: out}]
      run: {path: 'C:\concourse.exe', args: [hello]}
`

// A real worker registers at a real web, runs a build and retires. CONCOURSE_WINDOWS names
// concourse.exe in the version of CONCOURSE_RELEASE. The test provides the worker's key,
// which Windows would refuse, because of its owner. Wine stores no owners.
func TestRealWorkerRunsABuild(t *testing.T) {
	real := os.Getenv("CONCOURSE_WINDOWS")
	if real == "" {
		t.Skip("CONCOURSE_WINDOWS does not name a concourse.exe for Windows")
	}
	flyProgram := fly.Program(t)
	web := suite.StartWeb(t)
	w := start(t)
	ask := func(args ...string) string {
		t.Helper()
		c := exec.Command(flyProgram, append([]string{"-t", "web"}, args...)...)
		c.Env = append(os.Environ(), "HOME="+w.prefix)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	copied := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(w.c(to)), 0o700))
		require.NoError(t, os.WriteFile(w.c(to), data, 0o600))
	}
	copied(real, "real.exe")
	copied(filepath.Join(web.Keys, "tsa.pub"), "tsa.pub")
	copied(filepath.Join(web.Keys, "worker"), "ProgramData/concourse-worker/keys/worker_key") // the web accepts it
	w.worker("install", "--concourse", "C:\\real.exe", "--tsa-host", web.TSA, "--tsa-public-key", "C:\\tsa.pub", "--name", "rdna4-box",
		"--work-dir", "C:\\work")
	w.await("the worker is registered", running)
	_, rows, _ := w.try("C:\\worker.exe", "check", "--offline")
	require.Contains(t, rows, web.TSA+" accepts this worker")

	ask("login", "-c", web.URL, "-u", "admin", "-p", "s3 cr&t")
	require.Regexp(t, `rdna4-box +\d+ +windows +windows, gpu-count=0 +none +running`, ask("workers"))
	file := filepath.Join(t.TempDir(), "pipeline.yml")
	require.NoError(t, os.WriteFile(file, []byte(pipeline), 0o600))
	ask("set-pipeline", "-n", "-p", "hello", "-c", file)
	ask("unpause-pipeline", "-p", "hello")
	out := ask("trigger-job", "-j", "hello/hello", "--watch")
	require.Contains(t, out, "hello from windows")
	require.Contains(t, out, "succeeded")

	w.worker("uninstall", "--drain", "5m")
	require.False(t, strings.Contains(ask("workers"), "rdna4-box"), "the worker has retired")
	require.NoDirExists(t, w.c("work"))
}
