//go:build e2e

package act

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWorkflowRunsOnThisMachine(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/repository")))
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@t.example", "commit", "-q", "-m", "all"},
		{"remote", "add", "origin", "https://github.com/team/project"},
	} {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	action, err := filepath.Abs("testdata/action")
	require.NoError(t, err)
	run := Run{Dir: dir, Env: []string{"NAME=Ada"}, Actions: map[string]string{"team/greet@v1": action}}
	out, passed := Workflow(t, Program(t), run)
	require.True(t, passed, out)
	require.Contains(t, out, "hello Ada of team/project\n")

	run.Args = []string{"--env", "STATUS=3"}
	out, passed = Workflow(t, Program(t), run)
	require.False(t, passed, out)
	require.Contains(t, out, "::error title=Greeting::it ends with 3\n")
}
