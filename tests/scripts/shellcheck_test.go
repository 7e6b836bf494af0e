//go:build e2e

package scripts

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellCheckFindsNothing(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("needs shellcheck: sudo apt-get install -y shellcheck")
	}
	args := []string{"--external-sources"}
	for _, pattern := range []string{"scripts/*.sh", "scripts/*/*.sh", "tests/lxdhost/*.sh",
		"pipelines/tasks/*/*.sh", "tools/packages/*/*.sh", "tools/packages/gpukit/runners/*.sh",
		"tools/packages/gpukit/runners/*/*.sh", "tools/packages/gpukit/runners/buildkite/*",
		"tests/packages/*.sh"} {
		found, err := filepath.Glob("../../" + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, file := range found {
			args = append(args, strings.TrimPrefix(file, "../../"))
		}
	}
	c := exec.Command("shellcheck", args...)
	c.Dir = "../.."
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
}
