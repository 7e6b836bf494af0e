package release

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// upgraded is a machine that went from 8.2.4 to 8.2.5.
func upgraded(t testing.TB, m *mirror) host.Host {
	h := machine(t)
	for _, v := range []string{"8.2.4", "8.2.5"} {
		m.put(v, tarball(t, releaseEntries(v)...), true)
		r := m.from(v)
		require.NoError(t, resourcetest.Apply(t, h, r))
	}
	return h
}

// hook is a release as a new run of the charm asks for it.
func (m *mirror) hook(h host.Host, version string) Install {
	r := m.from(version)
	r.avoid = readFailed(h.Root)
	return r
}

// D14: a release that does not start gives way to the one before it, and is
// not tried again by itself.
func TestReleaseThatFailedGivesWay_D14(t *testing.T) {
	m := newMirror(t)
	h := upgraded(t, m)
	r := m.from("8.2.5")
	version, id, ok := Previous(h.Root)
	require.True(t, ok)
	require.Equal(t, []string{"8.2.4", "8.2.4"}, []string{version, id})
	_, is := r.Avoided(h.Root)
	require.False(t, is)
	m.Close() // going back needs no network

	require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "the web did not answer"))
	require.Equal(t, Failed{ID: "8.2.5", Version: "8.2.5", Why: "the web did not answer", Previous: "8.2.4"}, readFailed(h.Root))
	r = m.hook(h, "8.2.5")
	from, to, is := Upgrades(h.Root, r.Release)
	require.True(t, is)
	require.Equal(t, []string{"8.2.5", "8.2.4"}, []string{from, to})
	want, err := r.ID(h.Root)
	require.NoError(t, err)
	require.Equal(t, "8.2.4", want, "it is an input of the restart")
	require.Equal(t, []string{"switch /opt/concourse-ci-machine/release to 8.2.4"}, resourcetest.Ops(t, h, r))
	require.Contains(t, planned(t, h, r)[0].Why, "8.2.5 failed here")
	require.NoError(t, resourcetest.Apply(t, h, r))

	for range 3 {
		r = m.hook(h, "8.2.5")
		require.Empty(t, resourcetest.Ops(t, h, r))
		require.Equal(t, "8.2.4", inUse(t, h))
		f, is := r.Avoided(h.Root)
		require.True(t, is)
		require.Equal(t, "the web did not answer", f.Why)
		_, _, is = Upgrades(h.Root, r.Release)
		require.False(t, is)
		_, _, ok := Previous(h.Root)
		require.False(t, ok, "what failed is nothing to go back to")
	}
	require.True(t, h.Exists(Dir+"/8.2.5"), "another try needs no download")

	require.NoError(t, ForgetFailed(h.Root)) // restart-services force=true
	r = m.hook(h, "8.2.5")
	require.NoError(t, resourcetest.Apply(t, h, r))
	require.Equal(t, "8.2.5", inUse(t, h))
	_, previous, _ := Previous(h.Root)
	require.Equal(t, "8.2.4", previous)
}

// Wherever a run is killed after the note, the next one goes back and knows
// to what; before the note nothing has changed.
func TestGoingBackConvergesWhenKilledAnywhere_D14(t *testing.T) {
	m := newMirror(t)
	for name, leave := range map[string]func(h host.Host){
		"after the note": func(h host.Host) {},
		"while it switched": func(h host.Host) {
			hosttest.Link(t, h.Root, "/opt/concourse-ci-machine/.release.new", "half")
		},
		"after it switched": func(h host.Host) {
			p := planned(t, h, m.hook(h, "8.2.5"))
			applied(t, p[:1])
		},
		"noting it twice": func(h host.Host) {
			require.NoError(t, resourcetest.Apply(t, h, m.hook(h, "8.2.5")))
			require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "why"))
		},
		"the previous link lost": func(h host.Host) {
			require.NoError(t, h.Remove(previousLink))
			require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "why"))
		},
		"the previous link names what failed": func(h host.Host) {
			require.NoError(t, replaceLink(h.Root, previousLink, releaseFolder(h.Root, "8.2.5")))
			require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "why"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := upgraded(t, m)
			require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "why"))
			leave(h)
			require.NoError(t, resourcetest.Apply(t, h, m.hook(h, "8.2.5")))
			require.Empty(t, resourcetest.Ops(t, h, m.hook(h, "8.2.5")))
			require.Equal(t, "8.2.4", inUse(t, h))
			require.True(t, h.Exists(Dir+"/8.2.5"))
		})
	}
}

func TestFailedReleaseIsForgottenWhenAnotherIsWanted(t *testing.T) {
	m := newMirror(t)
	m.put("8.2.6", tarball(t, releaseEntries("8.2.6")...), true)
	file := attach(t, bigRelease(t, "8.2.5"))
	for name, want := range map[string]func(r *Release){
		"another version":  func(r *Release) { r.Version = "8.2.6" },
		"the one before":   func(r *Release) { r.Version = "8.2.4" },
		"another resource": func(r *Release) { r.Resource = file },
	} {
		t.Run(name, func(t *testing.T) {
			h := upgraded(t, m)
			require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "why"))
			require.NoError(t, resourcetest.Apply(t, h, m.hook(h, "8.2.5")))
			r := m.hook(h, "8.2.5")
			want(&r.Release)
			require.Equal(t, "forget that Concourse 8.2.5 failed", resourcetest.Ops(t, h, r)[0])
			require.NoError(t, resourcetest.Apply(t, h, r))
			require.Empty(t, readFailed(h.Root))
			again := m.hook(h, "8.2.5")
			want(&again.Release)
			require.Empty(t, resourcetest.Ops(t, h, again))
			_, _, is := Upgrades(h.Root, again.Release)
			require.False(t, is)
			require.NoError(t, resourcetest.Apply(t, h, m.hook(h, "8.2.5")))
			require.Equal(t, "8.2.5", inUse(t, h), "and tried when it is wanted again")
		})
	}
}

func TestSecondReleaseThatFailsGoesBackToTheSameOne(t *testing.T) {
	m := newMirror(t)
	h := upgraded(t, m)
	require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "why"))
	require.NoError(t, resourcetest.Apply(t, h, m.hook(h, "8.2.5")))
	m.put("8.2.6", tarball(t, releaseEntries("8.2.6")...), true)
	require.NoError(t, resourcetest.Apply(t, h, m.hook(h, "8.2.6")))
	require.NoError(t, MarkFailed(h.Root, "8.2.6", "8.2.6", "why too"))
	require.NoError(t, resourcetest.Apply(t, h, m.hook(h, "8.2.6")))
	require.Equal(t, "8.2.4", inUse(t, h))
	require.Empty(t, resourcetest.Ops(t, h, m.hook(h, "8.2.6")))
	require.False(t, h.Exists(Dir+"/8.2.5"))
}

// What runs is left alone, whatever the note has of the time before it.
func TestCompletedRollbackStays(t *testing.T) {
	m := newMirror(t)
	h := upgraded(t, m)
	m.put("8.2.6", tarball(t, releaseEntries("8.2.6")...), true)
	for _, previous := range []string{"8.2.4", "8.2.3", ""} {
		data := `{"id":"8.2.6","version":"8.2.6","why":"why","previous":"` + previous + `"}`
		hosttest.Put(t, h.Root, failedFile, data)
		require.Empty(t, resourcetest.Ops(t, h, m.hook(h, "8.2.6")), previous)
	}
	require.Equal(t, "8.2.5", inUse(t, h))
}

// With nothing before it, a release that fails is tried again.
func TestFirstReleaseThatFailsIsKept(t *testing.T) {
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	h := machine(t)
	r := m.from("8.2.5")
	require.NoError(t, resourcetest.Apply(t, h, r))
	_, _, ok := Previous(h.Root)
	require.False(t, ok)
	require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "why"))
	r = m.hook(h, "8.2.5")
	require.Empty(t, resourcetest.Ops(t, h, r))
	_, is := r.Avoided(h.Root)
	require.False(t, is)
	require.Equal(t, "8.2.5", inUse(t, h))
}

func TestGoingBackInSharedStorageKeepsBothReleases_D50(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	for _, v := range []string{"8.2.4", "8.2.5"} {
		m.put(v, tarball(t, releaseEntries(v)...), true)
		require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", v)))
	}
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")))
	require.NoError(t, MarkFailed(a.Root, "8.2.5", "8.2.5", "why"))
	require.Empty(t, readFailed(b.Root), "it failed on one unit only")
	hook := func() Install {
		r := m.shared("web/0", "8.2.5")
		r.avoid = readFailed(a.Root)
		return r
	}
	require.NoError(t, resourcetest.Apply(t, a, hook()))
	require.Empty(t, resourcetest.Ops(t, a, hook()))
	require.Equal(t, "8.2.4", inUse(t, a))
	require.Equal(t, "8.2.5", inUse(t, b))
	require.Empty(t, resourcetest.Ops(t, b, m.shared("worker/0", "8.2.5")))
}

func TestFailedNoteIsForRootOnlyAndNeverInTheWay(t *testing.T) {
	h := machine(t)
	require.Empty(t, readFailed(h.Root))
	require.NoError(t, MarkFailed(h.Root, "8.2.5", "8.2.5", "why"))
	st, err := h.Stat(failedFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	for _, text := range []string{"", "{", "[]", `{"id":"../.."}`, `{"id":""}`} {
		hosttest.Put(t, h.Root, failedFile, text)
		require.Empty(t, readFailed(h.Root), text)
	}
	require.NoError(t, ForgetFailed(h.Root))
	require.NoError(t, ForgetFailed(h.Root))
}

// D15: what makes the database older again is refused with a way out.
func TestDowngradeErrorNamesBothWays_D15(t *testing.T) {
	err := &DowngradeError{From: "8.2.5", To: "8.2.4", Schema: 1700000000}
	require.Contains(t, err.Remedy(wellknown.Commands{}).String(), "version=8.2.5")
	require.Contains(t, err.Remedy(wellknown.Commands{}).String(), "run-migrations target-version=")
	require.True(t, strings.HasPrefix(err.Error(), "cannot "))
}

func TestUpgradesReturnsBothVersions(t *testing.T) {
	m := newMirror(t)
	h := machine(t)
	m.put("8.2.4", tarball(t, releaseEntries("8.2.4")...), true)
	r := m.from("8.2.4")
	_, _, is := Upgrades(h.Root, r.Release)
	require.False(t, is, "nothing runs yet")
	require.NoError(t, resourcetest.Apply(t, h, r))
	_, _, is = Upgrades(h.Root, r.Release)
	require.False(t, is)
	next := m.from("8.2.5")
	from, to, is := Upgrades(h.Root, next.Release)
	require.True(t, is)
	require.Equal(t, []string{"8.2.4", "8.2.5"}, []string{from, to})
	from, to, is = Upgrades(h.Root, Release{Resource: attach(t, bigRelease(t, "8.2.5")), Arch: "amd64"})
	require.True(t, is)
	require.Equal(t, []string{"8.2.4", ""}, []string{from, to}, "only unpacking tells")
}
