package release

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// sharing is two units' machines that have one folder as HomeDir.
func sharing(t testing.TB) (a, b host.Host) {
	a, b = machine(t), machine(t)
	hosttest.Put(t, a.Root, SharedMarker, "shared-storage-ready\n")
	require.NoError(t, os.RemoveAll(b.Path(HomeDir)))
	require.NoError(t, os.Symlink(a.Path(HomeDir), b.Path(HomeDir)))
	return a, b
}

func (m *mirror) shared(unit, version string) Install {
	r := m.from(version)
	r.Shared, r.Unit = true, unit
	return r
}

func inUse(t testing.TB, h host.Host) string {
	t.Helper()
	version, _, ok := Installed(h.Root)
	require.True(t, ok)
	text, err := h.ReadText(BinDir + "/runc")
	require.NoError(t, err)
	require.Equal(t, "runc of "+version, text)
	return version
}

func tarballs(m *mirror) (n int) {
	for _, a := range m.asked {
		if strings.Contains(a, ".tgz") && !strings.Contains(a, ".sha256") {
			n++
		}
	}
	return n
}

// D6: every unit upgrades by itself, in any order and without a message to another; what a unit
// still runs stays until it reports otherwise.
func TestUnitsOfSharedStorageUpgradeInAnyOrder_D6_D50(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	for _, v := range []string{"8.2.3", "8.2.4", "8.2.5"} {
		m.put(v, tarball(t, releaseEntries(v)...), true)
	}
	require.Equal(t, []string{
		"note in /var/lib/concourse/units/web-0 that this unit needs 8.2.3",
		"install Concourse 8.2.3 into the shared storage",
		"switch /opt/concourse-ci-machine/release to 8.2.3",
	}, resourcetest.Ops(t, a, m.shared("web/0", "8.2.3")))
	require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.3")))
	require.Equal(t, []string{
		"note in /var/lib/concourse/units/worker-0 that this unit needs 8.2.3",
		"switch /opt/concourse-ci-machine/release to 8.2.3",
	}, resourcetest.Ops(t, b, m.shared("worker/0", "8.2.3")), "downloaded once for all")
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.3")))

	for _, v := range []string{"8.2.4", "8.2.5"} {
		require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", v)))
		require.Empty(t, resourcetest.Ops(t, a, m.shared("web/0", v)))
		require.Equal(t, v, inUse(t, a))
		require.Equal(t, "8.2.3", inUse(t, b), "D50: no unit changes another's runc")
		require.Empty(t, resourcetest.Ops(t, b, m.shared("worker/0", "8.2.3")))
	}
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")))
	require.Equal(t, "8.2.5", inUse(t, b))
	require.Equal(t, 3, tarballs(m))
	require.True(t, a.Exists(Dir+"/8.2.3"), "worker/0 may go back to it")
	require.True(t, a.Exists(Dir+"/8.2.4"), "web/0 may go back to it")

	// The other way round: the worker first, then the web.
	m.put("8.2.6", tarball(t, releaseEntries("8.2.6")...), true)
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.6")))
	require.Equal(t, "8.2.5", inUse(t, a))
	require.False(t, a.Exists(Dir+"/8.2.3"), "nobody needs it any more")
	require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.6")))
	require.Equal(t, "8.2.6", inUse(t, a))
	require.Empty(t, resourcetest.Ops(t, a, m.shared("web/0", "8.2.6")))
	require.Empty(t, resourcetest.Ops(t, b, m.shared("worker/0", "8.2.6")))
}

// D8: a marker of the Python charm's download is not a lock, however new it is.
func TestPredecessorsDownloadMarkersAreIgnored_D8(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	stale := []string{HomeDir + "/bin/.download_in_progress", HomeDir + "/.download_in_progress"}
	put := func() {
		for _, p := range stale {
			hosttest.Put(t, a.Root, p, "8.2.4\n2999-01-01T00:00:00\n")
		}
	}
	put()
	hosttest.Put(t, a.Root, installLock, "")
	require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.5")))
	require.Equal(t, "8.2.5", inUse(t, a))
	for _, p := range stale {
		require.False(t, a.Exists(p))
	}
	put() // and by a unit that has nothing to install
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")))
	for _, p := range stale {
		require.False(t, a.Exists(p))
	}
	require.True(t, a.Exists(HomeDir+"/bin"), "a unit of the Python charm may run what is in it")
}

// D10, D11: whatever the shared folder holds beside releases keeps its
// content, owner and mode.
func TestReleasesLeaveOtherFilesInSharedStorage_D10_D11(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	for _, v := range []string{"8.2.4", "8.2.5"} {
		m.put(v, tarball(t, releaseEntries(v)...), true)
	}
	hosttest.Put(t, a.Root, HomeDir+"/keys/tsa_host_key", "the web's")
	hosttest.Put(t, a.Root, HomeDir+"/bin/concourse", "the Python charm's")
	require.NoError(t, os.Chmod(a.Path(HomeDir+"/keys"), 0o711))
	require.NoError(t, os.Chmod(a.Path(HomeDir), 0o777))
	require.NoError(t, os.Chmod(a.Path(Dir), 0o775))
	listed := func() map[string]fs.FileMode {
		all := map[string]fs.FileMode{}
		require.NoError(t, filepath.WalkDir(a.Path(HomeDir), func(p string, d fs.DirEntry, err error) error {
			rel := a.Rel(p)
			if err == nil && !strings.HasPrefix(rel, Dir+"/") && !strings.HasPrefix(rel, unitsDir) && rel != installLock {
				st, serr := d.Info()
				require.NoError(t, serr)
				all[rel] = st.Mode()
			}
			return err
		}))
		return all
	}
	before := listed()
	for _, v := range []string{"8.2.4", "8.2.5"} {
		for unit, h := range map[string]host.Host{"web/0": a, "worker/0": b} {
			require.NoError(t, SharedStorage(h.Root))
			require.NoError(t, resourcetest.Apply(t, h, append(Folders(true), m.shared(unit, v))...))
			require.Empty(t, resourcetest.Ops(t, h, append(Folders(true), m.shared(unit, v))...))
		}
	}
	require.Equal(t, before, listed())
	require.True(t, a.Exists(HomeDir+"/keys/tsa_host_key"))
}

// Users of other uid maps run what one unit installed, whatever its umask was.
func TestReleaseIsReadableForAll_D11(t *testing.T) {
	a, _ := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	require.NoError(t, os.Remove(a.Path(Dir)))
	require.NoError(t, withUmask(0o077, func() error {
		return resourcetest.Apply(t, a, append(Folders(true), m.shared("web/0", "8.2.5"))...)
	}))
	for _, top := range []string{Dir, unitsDir} {
		require.NoError(t, filepath.WalkDir(a.Path(top), func(p string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			st, err := d.Info()
			require.NoError(t, err)
			want := fs.FileMode(0o444)
			if d.IsDir() {
				want = 0o555
			}
			require.Equal(t, want, st.Mode().Perm()&want, p)
			require.Zero(t, st.Mode().Perm()&0o022, p)
			return nil
		}))
	}
}

func TestMissingSharedStorageIsAwaited(t *testing.T) {
	h := machine(t)
	var wait *waitError
	require.ErrorAs(t, SharedStorage(h.Root), &wait)
	require.Equal(t, "Waiting for shared storage mount", wait.Waiting())

	// Nothing is downloaded before that, and nothing is written.
	early := newMirror(t)
	require.NoError(t, os.Remove(h.Path(Dir)))
	want := append(Folders(true), early.shared("web/0", "8.2.5"))
	require.Equal(t, []string{"use the release"}, resourcetest.Ops(t, h, want...))
	require.ErrorAs(t, resourcetest.Apply(t, h, want...), &wait)
	require.ErrorAs(t, early.shared("web/0", "8.2.5").Prepare(t.Context(), h, nil), &wait)
	require.Empty(t, early.asked)
	left, err := h.ReadDir(HomeDir)
	require.NoError(t, err)
	require.Empty(t, left)

	// A release on the container's own disk is not a sign of a mount that no longer exists.
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	r := m.from("8.2.5")
	require.NoError(t, resourcetest.Apply(t, h, r))
	require.ErrorAs(t, SharedStorage(h.Root), &wait)

	hosttest.Put(t, h.Root, SharedMarker, "")
	require.NoError(t, SharedStorage(h.Root))
}

func TestRemovedSharedStorageHasARemedy(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")))
	require.NoError(t, SharedStorage(b.Root))
	require.NoError(t, os.Remove(b.Path(HomeDir)))
	require.NoError(t, b.MkdirAll(HomeDir, 0o755))
	var gone *storageError
	require.ErrorAs(t, SharedStorage(b.Root), &gone)
	require.Equal(t, "Shared storage unavailable - mount may have been removed — on the LXD host run: lxc config device add <container> shared-storage disk source=<folder> path=/var/lib/concourse shift=true", gone.Remedy(wellknown.Commands{}).String())
	gone = nil
	require.ErrorAs(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")), &gone)
	require.NoError(t, SharedStorage(a.Root))
}

// D12: units that look at the same time do not see each other's probes, and
// what a killed run left is removed.
func TestProbesOfUnitsDoNotMeet_D12(t *testing.T) {
	a, b := sharing(t)
	old, older, young := a.Path(HomeDir+"/.write-probe-1"), a.Path(HomeDir+"/.write-probe-3"), a.Path(HomeDir+"/.write-probe-2")
	for _, p := range []string{old, older, young} {
		require.NoError(t, os.WriteFile(p, nil, 0o600))
	}
	st, err := os.Stat(young)
	require.NoError(t, err)
	for _, p := range []string{old, older} {
		require.NoError(t, os.Chtimes(p, time.Time{}, st.ModTime().Add(-2*probeAge)))
	}
	require.NoError(t, SharedStorage(a.Root))
	require.NoFileExists(t, old)
	require.NoFileExists(t, older)
	errs := make(chan error)
	for _, h := range []host.Host{a, b, a, b} {
		go func() {
			var err error
			for range 50 {
				if err = SharedStorage(h.Root); err != nil {
					break
				}
			}
			errs <- err
		}()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
	found, err := a.Glob(HomeDir + "/.write*")
	require.NoError(t, err)
	require.Equal(t, []string{a.Rel(young)}, found, "only another unit's probe is left")
}

func TestSharedStorageThatCantBeWrittenIsNamed(t *testing.T) {
	a, _ := sharing(t)
	hosttest.Put(t, a.Root, "/etc/hostname", "juju-4f2a10-0\n")
	// Root may write to any folder; here it is a file.
	require.NoError(t, os.Rename(a.Path(HomeDir), a.Path("/kept")))
	require.NoError(t, os.WriteFile(a.Path(HomeDir), nil, 0o644))
	var bad *storageError
	require.ErrorAs(t, SharedStorage(a.Root), &bad)
	require.Equal(t, "Shared storage not writable: not a directory: check the mount's permissions — on the LXD host run: lxc config device set juju-4f2a10-0 shared-storage shift=true", bad.Remedy(wellknown.Commands{}).String())
	require.NotContains(t, bad.Remedy(wellknown.Commands{}).String(), string(a.Root))
}
