//go:build e2e

package scripts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFoldersOnRealLXD(t *testing.T) {
	w, h, box := onLXD(t)
	folder := filepath.Join(h.Dir, "host data")
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.WriteFile(folder+"/model", []byte("weights\n"), 0o644))
	inside := func(line string) string { return h.Run("", "lxc", "exec", box, "--", "sh", "-c", line) }

	for _, args := range [][]string{{"--name=models"}, {"--name=cache_rw"}} {
		r := w.run(t, "mount-folder.sh", append([]string{"rocm-worker/0", folder}, args...)...)
		require.Zero(t, r.code, r.err)
	}
	require.Equal(t, "weights", inside("cat /srv/models/model"))
	require.Equal(t, "no", inside("touch /srv/models/x 2>/dev/null || echo no"), "for reading")
	require.Contains(t, inside("grep ' /srv/' /proc/mounts"), " /srv/cache_rw ")
	r := w.run(t, "mount-folder.sh", "rocm-worker/0", folder, "--name=models")
	require.Zero(t, r.code, r.err)
	require.Empty(t, r.out, "the second run")
	for _, name := range []string{"models", "cache_rw"} {
		r = w.run(t, "mount-folder.sh", "rocm-worker/0", folder, "--remove", "--name="+name)
		require.Zero(t, r.code, r.err)
	}
	require.Equal(t, "none", inside("grep ' /srv/' /proc/mounts || echo none"))
	require.NotContains(t, h.Run("", "lxc", "config", "show", box), "user.mount-folder")

	r = w.run(t, "share-storage.sh", "rocm-worker", folder)
	if strings.Contains(r.err, "Required idmapping abilities not available") {
		require.NotContains(t, h.Run("", "lxc", "config", "show", box), "user.share-storage", "what LXD refuses is not noted")
		t.Skip("shared storage: this kernel or file system has no mounts with mapped ids, which shift=true needs")
	}
	require.Zero(t, r.code, r.err)
	st, err := os.Stat(folder + "/.lxc_shared_storage")
	require.NoError(t, err, "the container's root writes into the host's folder")
	require.Zero(t, st.Size())
	r = w.run(t, "share-storage.sh", "rocm-worker", folder)
	require.Empty(t, r.out, "the second run")
	r = w.run(t, "share-storage.sh", "rocm-worker", "--remove")
	require.Zero(t, r.code, r.err)
	require.FileExists(t, folder+"/.lxc_shared_storage", "the folder stays")
}
