// Package act runs workflows of GitHub in tests with nektos/act. Jobs of self-hosted runners run
// on this machine itself, without Docker, and reach no network.
package act

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// Program returns act: the program in $ACT, or the version in nektos/go.mod. That is built once,
// in a minute or two, and kept in the user's cache folder.
func Program(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("ACT"); path != "" {
		return path
	}
	into := t.TempDir()
	require.NoError(t, suite.Tools(context.Background(), filepath.Join(hosttest.Source(), "tests/act/nektos"), into))
	return filepath.Join(into, "nektos", "act")
}

// Run describes one run of workflows.
type Run struct {
	Dir     string            // checkout with .github/workflows
	Event   string            // "push", or "" for it
	Env     []string          // more of the environment of act and of jobs: "NAME=value"
	Actions map[string]string // folders of actions by "owner/name@ref", which act would clone otherwise
	Args    []string          // more flags, such as "--job", "unit"
}

// Workflow runs act and returns its output, and whether all jobs passed. Without Dir's remote
// "origin" at github.com act does not know the repository's name.
func Workflow(t testing.TB, program string, r Run) (out string, passed bool) {
	t.Helper()
	if r.Event == "" {
		r.Event = "push"
	}
	args := []string{r.Event, "-P", "self-hosted=-self-hosted", "--no-cache-server"}
	for name, dir := range r.Actions {
		args = append(args, "--local-repository", name+"="+dir)
	}
	c := exec.Command(program, append(args, r.Args...)...)
	c.Dir = r.Dir
	// act and its jobs write below HOME. An operator's own actrc and tokens are not for tests.
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8"}, r.Env...)
	text, err := c.CombinedOutput()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err, string(text))
	}
	return string(text), err == nil
}
