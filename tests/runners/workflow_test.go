//go:build e2e

package runners

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/act"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// act is what the runners of Gitea and Forgejo run jobs with. Here it runs them on the machine,
// as they do for a label of the kind host.
func TestStepsOfGiteaLeaseGPUs(t *testing.T) {
	m := newMachine(t)
	suite.Need(t, suite.Lacks("git", "git"))
	program := act.Program(t)
	data, err := os.ReadFile(hooks + "/gitea/workflow.yml")
	require.NoError(t, err)
	dir := checkout(t, data)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	out, passed := act.Workflow(t, program, act.Run{Dir: dir, Env: []string{"CHARM_ROOT=" + string(m.root)}})
	require.True(t, passed, out)
	require.Regexp(t, `gpukit: run-[0-9a-f]{12} has GPU \d`, out)
	require.Regexp(t, `GPU 0 of run-[0-9a-f]{12}\n`, out)
	require.Contains(t, out, "| none\n")
	m.free()
}

// checkout returns a repository with a workflow.
func checkout(t *testing.T, workflow []byte) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".github/workflows"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".github/workflows/gpu.yml"), workflow, 0o600))
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t.example", "commit",
			"-q", "-m", "all"},
		{"remote", "add", "origin", "https://github.com/team/project"},
	} {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return dir
}

func TestExampleWorkflowsAreValid(t *testing.T) {
	c := exec.Command("go", "tool", "-modfile=tools/pinned/go.mod", "actionlint", "-config-file",
		"tests/runners/testdata/actionlint.yaml",
		"tools/packages/gpukit/runners/github/workflow.yml", "tools/packages/gpukit/runners/gitea/workflow.yml")
	c.Dir = "../.."
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
}
