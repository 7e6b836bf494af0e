//go:build e2e

package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellCheckFindsNothing(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ",shellcheck,") {
			t.Fatal(err)
		}
		t.Skip("needs shellcheck; `make e2e` installs it")
	}
	args := []string{"--external-sources"}
	for _, pattern := range []string{"scripts/*.sh", "scripts/*/*.sh", "tests/lxdhost/*.sh", "pipelines/tasks/*/*.sh", "tools/packages/*/*.sh", "tests/packages/*.sh"} {
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
