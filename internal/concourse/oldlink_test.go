package concourse

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
)

// before is a machine as an earlier version of this charm left it: 8.2.5 in
// use, 8.2.4 before it, and the links in HomeDir.
func before(t testing.TB, m *mirror) host.Host {
	h := machine(t)
	for _, v := range []string{"8.2.4", "8.2.5"} {
		m.put(v, tarball(t, releaseEntries(v)...), true)
		r, _ := m.from(v)
		require.NoError(t, apply(t, h, r))
	}
	require.NoError(t, os.RemoveAll(h.Path("/opt/concourse-ci-machine")))
	for link, to := range map[string]string{
		HomeDir + "/release": "releases/8.2.5", ReleasesDir + "/.previous": "8.2.4",
		HomeDir + "/bin": "release/bin", HomeDir + "/resource-types": "release/resource-types",
	} {
		hosttest.Link(t, h.Root, link, to)
	}
	return h
}

// The release in use stays the same one, so that nothing restarts for it, and
// what was started by the old path finds its files all the while.
func TestLinksOfEarlierVersionsMove(t *testing.T) {
	m := newMirror(t)
	for killed := 0; ; killed++ {
		h := before(t, m)
		asked := len(m.asked)
		r, _ := m.from("8.2.5")
		id, err := r.ID(h.Root)
		require.NoError(t, err)
		require.Equal(t, "8.2.5", id)
		version, id, ok := InstalledRelease(h.Root)
		require.True(t, ok)
		require.Equal(t, []string{"8.2.5", "8.2.5"}, []string{version, id})
		p := planned(t, h, r)
		require.Equal(t, []string{
			"switch /opt/concourse-ci-machine/release to 8.2.5",
			"link /var/lib/concourse/release to /opt/concourse-ci-machine/release",
			"remove /var/lib/concourse/bin",
			"remove /var/lib/concourse/resource-types",
		}, ops(t, h, r))
		if killed > len(p) {
			break
		}
		applied(t, p[:killed])
		require.True(t, h.Exists(HomeDir+"/release/bin/runc"))
		again, _ := m.from("8.2.5")
		require.NoError(t, apply(t, h, again))
		require.Empty(t, ops(t, h, again))
		require.Equal(t, "8.2.5", inUse(t, h))
		_, previous, ok := again.Previous(h.Root)
		require.True(t, ok)
		require.Equal(t, "8.2.4", previous)
		require.True(t, h.Exists(ReleasesDir+"/8.2.4"))
		_, err = h.Lstat(ReleasesDir + "/.previous")
		require.ErrorIs(t, err, os.ErrNotExist)
		require.Len(t, m.asked, asked, "nothing is downloaded again")

		m.put("8.2.6", tarball(t, releaseEntries("8.2.6")...), true)
		next, _ := m.from("8.2.6")
		require.NoError(t, apply(t, h, next))
		text, err := h.ReadText(HomeDir + "/release/bin/runc")
		require.NoError(t, err)
		require.Equal(t, "runc of 8.2.6", text, "the old path follows upgrades")
	}
}

func TestLinksMoveTogetherWithAnUpgrade(t *testing.T) {
	m := newMirror(t)
	h := before(t, m)
	m.put("8.2.6", tarball(t, releaseEntries("8.2.6")...), true)
	r, _ := m.from("8.2.6")
	require.NoError(t, apply(t, h, r))
	require.Empty(t, ops(t, h, r))
	require.Equal(t, "8.2.6", inUse(t, h))
	_, previous, _ := r.Previous(h.Root)
	require.Equal(t, "8.2.5", previous)
	require.False(t, h.Exists(ReleasesDir+"/8.2.4"))
}

func TestLinksThatNameNoReleaseAreNone(t *testing.T) {
	for _, text := range []string{"", "/etc/passwd", "/var/lib/concourse/releases", "/var/lib/concourse/releases/..",
		"/var/lib/concourse/releases/.download", "releases/8.2.5", "8.2.5", "/var/lib/concourse/releases/a/b"} {
		h := machine(t)
		if text != "" {
			hosttest.Link(t, h.Root, ReleaseLink, text)
		}
		id, ok := linkedRelease(h.Root, ReleaseLink)
		require.False(t, ok, "%q names %q", text, id)
	}
	h := machine(t)
	hosttest.Link(t, h.Root, ReleaseLink, "/var/lib/concourse/releases/8.2.5")
	id, ok := linkedRelease(h.Root, ReleaseLink)
	require.True(t, ok)
	require.Equal(t, "8.2.5", id)
}
