//go:build e2e

package lxd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// folders are what an operator has LXD put below the unit's /srv.
func (u *unit) folders(t *testing.T) {
	u.d.Sub(t, "folders of the LXD host are in tasks, for writing where their name says so", func(t *testing.T) {
		from := filepath.Join(filepath.Dir(u.parts), "srv")
		for name, mode := range map[string]os.FileMode{"models": 0o755, "cache_rw": 0o777 | os.ModeSticky} {
			require.NoError(t, os.MkdirAll(filepath.Join(from, name), 0o755))
			require.NoError(t, os.Chmod(filepath.Join(from, name), mode))
			u.device("add", name, "disk", "source="+filepath.Join(from, name), "path=/srv/"+name)
		}
		require.NoError(t, os.WriteFile(filepath.Join(from, "models/weights"), []byte("of the host\n"), 0o644))
		const line = "busybox cat /srv/models/weights; echo of the task >/srv/cache_rw/made; (: >/srv/models/made) 2>&1"
		for _, kind := range [][]string{nil, {privileged}} {
			out, err := u.task("folders", line, kind...)
			require.Error(t, err)
			require.Contains(t, out, "of the host\n")
			require.Contains(t, out, "Read-only file system")
			made, err := os.ReadFile(filepath.Join(from, "cache_rw/made"))
			require.NoError(t, err)
			require.Equal(t, "of the task\n", string(made))
			require.NoError(t, os.Remove(filepath.Join(from, "cache_rw/made")))
		}
		u.hook("update-status")
		require.Equal(t, ready+" (2 folders: 1 read-only, 1 writable)", u.said())
		for _, name := range []string{"models", "cache_rw"} {
			u.device("remove", name)
		}
		u.hook("update-status")
		require.Equal(t, ready, u.said())
	})
}
