package setup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goOfModule returns the version of Go that a go.mod names.
func goOfModule(t *testing.T, file string) string {
	t.Helper()
	mod, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(mod), "\ngo ")
	version, _, _ := strings.Cut(rest, "\n")
	return version
}

// A release is made by exactly one Go, also if the machine has a newer one or its user
// chose another.
func TestReleaseIsBuiltByTheGoOfTheModule(t *testing.T) {
	script, err := os.ReadFile("../../scripts/release.sh")
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"scripts/release.sh": string(script),
		"VERSION":            "9.8.7\n",
		"CHANGELOG.md":       "## [9.8.7] - 2026-01-02\n",
		"go.mod":             "module m\n\ngo 1.99.3\n",
		"bin/git":            "#!/bin/sh\n[ $1 != rev-parse ] || echo 0123\n",
		"bin/go":             "#!/bin/sh\n[ \"$*\" = version ]\n",
		"bin/make":           "#!/bin/sh\necho \"made by $GOTOOLCHAIN\"\nexit 1\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	for _, chosen := range []string{"", "auto", "local", "go1.99.9"} {
		c := exec.Command(filepath.Join(dir, "scripts/release.sh"), "9.8.7")
		c.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "GOTOOLCHAIN=" + chosen}
		out, _ := c.CombinedOutput()
		require.Contains(t, string(out), "made by go1.99.3", chosen)
	}
}

// The modules that are built beside the charm's must not ask for another Go.
func TestToolsAreBuiltByTheSameGo(t *testing.T) {
	for _, tool := range []string{"pinned", "packages"} {
		require.Equal(t, goOfModule(t, "../../go.mod"), goOfModule(t, "../../tools/"+tool+"/go.mod"))
	}
}
