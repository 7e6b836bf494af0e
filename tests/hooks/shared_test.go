package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const notMounted = "waiting: Waiting for shared storage mount"

// mount shows a folder of the LXD host as the units' HomeDir, by a symbolic link
// in place of a bind mount.
func mount(t *testing.T, units ...*unit) (folder string) {
	t.Helper()
	folder = t.TempDir()
	require.NoError(t, os.Chmod(folder, 0o755))
	for _, u := range units {
		require.NoError(t, os.RemoveAll(u.Root.Path("/var/lib/concourse")))
		require.NoError(t, os.Symlink(folder, u.Root.Path("/var/lib/concourse")))
	}
	return folder
}

// statusLine returns the status of a unit.
func (u *unit) statusLine() string {
	s := u.Model.Status()
	return s.Status + ": " + s.Message
}

// D7, D8, D10, D12, D50: one unpacks, the others use what is there; no hook waits,
// and each has its own link.
func TestD7D8D10D12D50UnitsShareReleasesOnly(t *testing.T) {
	t.Parallel()
	gpu := workers(t, 2, options{"shared-storage": "lxc"})
	for k, u := range gpu.units {
		require.Equal(t, notMounted+"; Waiting for a web — run: juju integrate gpu:flight <web application>:tsa", gpu.status(k))
		u.web()
		gpu.hook(k, "update-status")
		require.Equal(t, notMounted, gpu.status(k))
		require.False(t, u.Root.Exists("/var/lib/concourse/releases"), "nothing lands on the container's own disk")
	}
	a, b := gpu.units[0], gpu.units[1]
	folder := mount(t, a, b)
	require.Equal(t, notMounted, func() string { gpu.hook(0, "update-status"); return a.statusLine() }())
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".lxc_shared_storage"), []byte("shared-storage-ready\n"), 0o644))
	// D8: what the predecessor's units left is stale, however new it looks.
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "bin/.download_in_progress"), []byte("8.2.5\n"), 0o644))

	// Another unit is at work: a hook ends all the same.
	lock, err := os.OpenFile(filepath.Join(folder, ".install.lock"), os.O_CREATE|os.O_RDONLY, 0o644)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	gpu.hook(1, "update-status")
	require.Equal(t, "waiting: Another unit downloading, waiting...", b.statusLine())
	require.NoError(t, lock.Close())

	r := gpu.hook(0, "update-status")
	require.Contains(t, r.Plan(), "into the shared storage")
	require.Equal(t, "active: Worker ready (v8.2.5)", a.statusLine())
	r = gpu.hook(1, "update-status")
	require.NotContains(t, r.Plan(), "into the shared storage", "it is there")
	require.Equal(t, "active: Worker ready (v8.2.5)", b.statusLine())
	gpu.idle()
	for _, u := range gpu.units {
		require.Equal(t, "8.2.5", u.running())
		for _, path := range []string{"/var/lib/concourse/keys", "/var/lib/concourse/config.env", "/var/lib/concourse/worker", "/var/lib/concourse/release"} {
			require.False(t, u.Root.Exists(path), "%s is shared", path)
		}
	}

	// One goes ahead; the other keeps its own.
	r = a.upgraded("8.2.6")
	require.Equal(t, "active: Worker ready (v8.2.6)", a.statusLine())
	require.Equal(t, []string{retire, restart}, r.Commands)
	require.Equal(t, "8.2.6", a.running())
	require.Equal(t, "8.2.5", b.running())
	gpu.hook(1, "update-status")
	require.Equal(t, "active: Worker ready (v8.2.5)", b.statusLine())
	gpu.idle()
	probes, err := filepath.Glob(filepath.Join(folder, ".write*"))
	require.NoError(t, err)
	require.Empty(t, probes)

	// The mount goes: the text reports what to do, and comes right by itself.
	require.NoError(t, os.Remove(a.Root.Path("/var/lib/concourse")))
	require.NoError(t, os.Mkdir(a.Root.Path("/var/lib/concourse"), 0o755))
	gpu.hook(0, "update-status")
	require.True(t, strings.HasPrefix(a.statusLine(), "blocked: Shared storage unavailable - mount may have been removed; more: "), a.statusLine())
	require.NoError(t, os.Remove(a.Root.Path("/var/lib/concourse")))
	require.NoError(t, os.Symlink(folder, a.Root.Path("/var/lib/concourse")))
	gpu.hook(0, "update-status")
	require.Equal(t, "active: Worker ready (v8.2.6)", a.statusLine())
}

// A web on shared storage has its keys and its environment to itself.
func TestD10WebOnSharedStorageKeepsItsKeysToItself(t *testing.T) {
	t.Parallel()
	c := newApp(t, "ci", "10.0.0", 2, options{"mode": "web", "shared-storage": "lxc"})
	relationOf(c.units[0], "peers").LocalApp["admin-password"] = password
	c.share(0)
	c.begin()
	for k := range c.units {
		require.Contains(t, c.status(k), notMounted[len("waiting: "):])
	}
	folder := mount(t, c.units...)
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".lxc_shared_storage"), nil, 0o644))
	c.database()
	networkOf(c).settle()
	for k, u := range c.units {
		c.hook(k, "update-status")
		require.Equal(t, "active: Web server ready (v8.2.5) "+url(u), c.status(k))
		require.Contains(t, u.read("/var/lib/concourse-web/config.env"), "CONCOURSE_TSA_HOST_KEY=/var/lib/concourse-web/keys/tsa_host_key\n")
	}
	for k := range c.units {
		c.hook(k, "update-status")
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		require.Contains(t, []string{".lxc_shared_storage", ".install.lock", "releases", ".units", "units"}, e.Name())
	}
	c.idle()
}
