//go:build e2e

package charm

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// makeCharm runs `make charm` as a person would, but into its own folder, and returns the
// charm.
func makeCharm(t *testing.T, arch string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "concourse-ci-machine_"+arch+".charm")
	c := exec.Command("make", "--no-print-directory", "-C", root, "charm", "VERSION="+version,
		"GOARCH="+arch, "BIN="+filepath.Join(dir, "bin"), "CHARM="+file)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS") { // the make around this test
			c.Env = append(c.Env, v)
		}
	}
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	return file
}

// unpack extracts the charm as Juju does (github.com/juju/utils/v3/zip): modes
// kept, links kept when they are relative and stay inside.
func unpack(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	z, err := zip.OpenReader(file)
	require.NoError(t, err)
	defer z.Close()
	for _, f := range z.File {
		require.True(t, filepath.IsLocal(f.Name), f.Name)
		path := filepath.Join(dir, f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		r, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		switch f.Mode().Type() {
		case fs.ModeSymlink:
			target := filepath.Join(filepath.Dir(f.Name), string(data))
			require.True(t, filepath.IsLocal(target), "%s links to %s", f.Name, data)
			require.NoError(t, os.Symlink(string(data), path))
		case 0:
			require.NoError(t, os.WriteFile(path, data, f.Mode().Perm()))
		default:
			require.Fail(t, "Juju unpacks files and links only", f.Name)
		}
	}
	return dir
}
