package debian

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a system is made of decides its name, so that another is made when that
// changes.
func TestASystemsNameIsMadeOfItsParts(t *testing.T) {
	tree := t.TempDir()
	file := filepath.Join(tree, "etc/os-release")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("ID=debian\n"), 0o644))
	name := func(s System) string {
		got, err := s.File()
		require.NoError(t, err)
		return got
	}
	s := System{Name: "a", Suite: "trixie", Packages: "udev", Script: "true", Tree: tree}
	before := name(s)
	require.Equal(t, before, name(s))
	seen := map[string]bool{before: true}
	for what, other := range map[string]System{
		"another name":     {Name: "b", Suite: "trixie", Packages: "udev", Script: "true", Tree: tree},
		"another suite":    {Name: "a", Suite: "sid", Packages: "udev", Script: "true", Tree: tree},
		"more packages":    {Name: "a", Suite: "trixie", Packages: "udev,jq", Script: "true", Tree: tree},
		"another script":   {Name: "a", Suite: "trixie", Packages: "udev", Script: "false", Tree: tree},
		"no files":         {Name: "a", Suite: "trixie", Packages: "udev", Script: "true"},
		"the other folder": {Name: "a", Suite: "trixie", Packages: "udev", Script: "true", Tree: filepath.Dir(file)},
	} {
		require.False(t, seen[name(other)], what)
		seen[name(other)] = true
	}
	require.NoError(t, os.WriteFile(file, []byte("ID=ubuntu\n"), 0o644))
	require.False(t, seen[name(s)], "a file with another content")
	seen[name(s)] = true
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink("../usr/lib/os-release", file))
	require.False(t, seen[name(s)], "a link in its place")
	_, err := System{Tree: "/nonexistent"}.File()
	require.ErrorIs(t, err, os.ErrNotExist)
}
