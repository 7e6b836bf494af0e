package suite

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseIsAFolderOrATarball(t *testing.T) {
	top := t.TempDir()
	folder := filepath.Join(top, "concourse")
	for _, name := range []string{"bin/concourse", "bin/runc", "fly-assets/fly-linux-" + runtime.GOARCH + ".tgz"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(name), 0o755))
	}
	tarball := filepath.Join(top, "concourse-8.2.5-linux-amd64.tgz")
	out, err := exec.Command("tar", "-czf", tarball, "-C", top, "concourse").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, named := range []string{folder, tarball} {
		t.Setenv(ReleaseEnv, named)
		dir, err := ReleaseFolder(t.TempDir())
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, "bin/concourse"))
		require.NoError(t, err)
		require.Equal(t, "bin/concourse", string(got), named)
	}
	t.Setenv(ReleaseEnv, "")
	dir, err := ReleaseFolder(top)
	require.NoError(t, err)
	require.Empty(t, dir, "none is named")
	for _, wrong := range []string{filepath.Join(top, "none"), filepath.Join(folder, "bin/runc"), top} {
		t.Setenv(ReleaseEnv, wrong)
		_, err := ReleaseFolder(t.TempDir())
		require.ErrorContains(t, err, "cannot use CONCOURSE_RELEASE="+wrong)
	}
}
