package suite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestToolsAreBuiltAgainAfterEachChange(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := filepath.Join(t.TempDir(), "tofu")
	require.NoError(t, os.Mkdir(dir, 0o755))
	_, err := ToolsFile(dir)
	require.ErrorIs(t, err, os.ErrNotExist)

	name := func(goSum string, how ...string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module tofu\n"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), []byte(goSum), 0o644))
		name, err := ToolsFile(dir, how...)
		require.NoError(t, err)
		return name
	}
	names := map[string]bool{name("a"): true, name("b"): true, name("b", "-tags x"): true}
	require.Len(t, names, 3)
	require.Equal(t, name("a"), name("a"))

	there, err := ToolsCached(dir)
	require.NoError(t, err)
	require.False(t, there)
	cache := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "concourse-ci-machine-tests")
	require.NoError(t, os.WriteFile(filepath.Join(cache, name("a")), nil, 0o644))
	there, err = ToolsCached(dir)
	require.NoError(t, err)
	require.True(t, there)
}
