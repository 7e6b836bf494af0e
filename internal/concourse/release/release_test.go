package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

func TestReleaseFromAMirrorIsInstalledOnce(t *testing.T) {
	h, m := machine(t), newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	r := m.from("8.2.5")
	before, err := r.ID(h.Root)
	require.NoError(t, err)
	require.Equal(t, []string{
		"download Concourse 8.2.5",
		"verify the download of Concourse 8.2.5",
		"unpack Concourse 8.2.5",
		"switch /opt/concourse-ci-machine/release to 8.2.5",
		"remove /var/lib/concourse/releases/.download",
	}, resourcetest.Ops(t, h, r))
	said, err := followed(h, r)
	require.NoError(t, err)

	version, id, ok := Installed(h.Root)
	require.True(t, ok)
	require.Equal(t, "8.2.5", version)
	require.Equal(t, before, id, "the id is known before the release is there")
	for p, mode := range map[string]os.FileMode{"/bin/runc": 0o755, "/resource-types/git/resource_metadata.json": 0o644} {
		st, err := h.Stat(Link + p)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm(), p)
	}
	require.Contains(t, said, "Downloading Concourse CI 8.2.5... 100%")
	require.Empty(t, resourcetest.Ops(t, h, r))
	again := m.from("8.2.5")
	require.Empty(t, resourcetest.Ops(t, h, again), "another run finds nothing to do either")
}

// A run that is killed between two steps, wherever, converges when run again.
func TestReleaseConvergesWhenKilledAfterEachStep(t *testing.T) {
	m := newMirror(t)
	m.put("8.2.4", tarball(t, releaseEntries("8.2.4")...), true)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	for killed := 0; ; killed++ {
		h := machine(t)
		old := m.from("8.2.4")
		require.NoError(t, resourcetest.Apply(t, h, old))
		r := m.from("8.2.5")
		p, err := plan.Diff(context.Background(), h, r)
		require.NoError(t, err)
		if killed > len(p) {
			break
		}
		_, err = p[:killed].Apply(context.Background(), nil)
		require.NoError(t, err)
		fresh := m.from("8.2.5")
		require.NoError(t, resourcetest.Apply(t, h, fresh), "killed after %d steps", killed)
		require.Empty(t, resourcetest.Ops(t, h, fresh), "killed after %d steps", killed)
		version, _, ok := Installed(h.Root)
		require.True(t, ok)
		require.Equal(t, "8.2.5", version)
		require.True(t, h.Exists(Dir+"/8.2.4"), "the previous release is kept, killed after %d steps", killed)
	}
}

// D48: runc is always from the release in use.
func TestUpgradeKeepsThePreviousReleaseAndNoOlder_D48(t *testing.T) {
	h, m := machine(t), newMirror(t)
	hosttest.Put(t, h.Root, Dir+"/somebodys/notes", "not ours")
	for _, v := range []string{"8.2.3", "8.2.4", "8.2.5"} {
		m.put(v, tarball(t, releaseEntries(v)...), true)
		r := m.from(v)
		require.NoError(t, resourcetest.Apply(t, h, r))
	}
	require.False(t, h.Exists(Dir+"/8.2.3"))
	require.True(t, h.Exists(Dir+"/8.2.4"))
	require.True(t, h.Exists(Dir+"/somebodys/notes"), "what has no record of ours stays")

	m.Close() // going back needs no download
	back := m.from("8.2.4")
	require.NoError(t, resourcetest.Apply(t, h, back))
	version, _, _ := Installed(h.Root)
	require.Equal(t, "8.2.4", version)
	require.True(t, h.Exists(Dir+"/8.2.5"))
	require.Empty(t, resourcetest.Ops(t, h, back))
	runc, err := h.ReadText(BinDir + "/runc")
	require.NoError(t, err)
	require.Equal(t, "runc of 8.2.4", runc, "D48: runc comes from the release in use")
}

// Nothing links from the Python charm's folders into this charm's release, and what is
// there stays.
func TestReleaseIsOutOfThePythonCharmsReach(t *testing.T) {
	for name, c := range map[string]struct{ link, left string }{
		"its own folder":           {"", "old"},
		"a link of the operator's": {"/mnt/programs", "operator's"},
	} {
		h, m := machine(t), newMirror(t)
		m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
		hosttest.Put(t, h.Root, "/mnt/programs/concourse", "operator's")
		if c.link == "" {
			hosttest.Put(t, h.Root, HomeDir+"/bin/concourse", "old")
		} else {
			hosttest.Link(t, h.Root, HomeDir+"/bin", h.Path(c.link))
		}
		r := m.from("8.2.5")
		require.NoError(t, resourcetest.Apply(t, h, r))
		require.Empty(t, resourcetest.Ops(t, h, r))
		text, err := h.ReadText(HomeDir + "/bin/concourse")
		require.NoError(t, err, name)
		require.Equal(t, c.left, text, name)
		require.NoError(t, os.MkdirAll(h.Path(HomeDir+"/bin"), 0o755))
		require.NoError(t, os.WriteFile(h.Path(HomeDir+"/bin/runc"), []byte("a wrapper"), 0o755))
		runc, err := h.ReadText(BinDir + "/runc")
		require.NoError(t, err)
		require.Equal(t, "runc of 8.2.5", runc, name)
	}
}

func attach(t *testing.T, data []byte) string {
	file := filepath.Join(t.TempDir(), "concourse.tgz")
	require.NoError(t, os.WriteFile(file, data, 0o644))
	return file
}

func TestAttachedReleaseNeedsNoNetwork(t *testing.T) {
	h, data := machine(t), tarball(t, releaseEntries("8.2.4")...)
	r := Install{Release: Release{Resource: attach(t, data), Arch: "arm64"}} // D66: and any architecture
	id, err := r.ID(h.Root)
	require.NoError(t, err)
	require.NoError(t, resourcetest.Apply(t, h, r))
	version, got, ok := Installed(h.Root)
	require.True(t, ok)
	require.Equal(t, "8.2.4", version)
	require.Equal(t, id, got)
	require.Empty(t, resourcetest.Ops(t, h, r))

	// Juju gives a new revision the same path.
	require.NoError(t, os.WriteFile(r.Resource, tarball(t, releaseEntries("8.2.5")...), 0o644))
	require.NoError(t, resourcetest.Apply(t, h, r))
	version, _, _ = Installed(h.Root)
	require.Equal(t, "8.2.5", version)

	// A new date alone is noted, so that the file is not hashed every time.
	require.NoError(t, os.Chtimes(r.Resource, time.Time{}, hosttest.Now))
	require.Len(t, resourcetest.Ops(t, h, r), 1)
	require.NoError(t, resourcetest.Apply(t, h, r))
	require.Empty(t, resourcetest.Ops(t, h, r))
}

// Hashing an attached release takes seconds, so a run does it once; and what it found
// is data, the same from the same machine.
func TestAttachedReleaseIsHashedOnceInARun(t *testing.T) {
	h, want := machine(t), Release{Resource: attach(t, []byte("release")), Arch: "amd64"}
	seen, err := Observe(h.Root, want)
	require.NoError(t, err)
	again, err := Observe(h.Root, want)
	require.NoError(t, err)
	require.Equal(t, seen, again)
	id, err := seen.ID(h.Root)
	require.NoError(t, err)
	require.Equal(t, "file-"+sumOf([]byte("release"))[:12], id)

	// Its size and date don't show that it is another one.
	require.NoError(t, os.WriteFile(want.Resource, []byte("another"), 0o644))
	require.NoError(t, os.Chtimes(want.Resource, time.Time{}, seen.seen.Modified))
	same, err := seen.ID(h.Root)
	require.NoError(t, err)
	require.Equal(t, id, same)
	fresh, err := want.ID(h.Root)
	require.NoError(t, err)
	require.NotEqual(t, id, fresh)
}

func TestAttachedReleaseOfAnotherVersionOrSumIsRefused(t *testing.T) {
	h, data := machine(t), tarball(t, releaseEntries("8.2.4")...)
	file := attach(t, data)
	for range 2 { // again: without unpacking it again
		err := resourcetest.Apply(t, h, Install{Release: Release{Version: "8.2.5", Resource: file, Arch: "amd64"}})
		var other *VersionError
		require.ErrorAs(t, err, &other)
		require.Contains(t, other.Remedy(wellknown.Commands{}).String(), "set version=8.2.4")
		_, _, ok := Installed(h.Root)
		require.False(t, ok)
	}
	err := resourcetest.Apply(t, h, Install{Release: Release{Resource: file, SHA256: sumOf([]byte("x")), Arch: "amd64"}})
	var sum *checksumError
	require.ErrorAs(t, err, &sum)
	require.Contains(t, sum.Remedy(wellknown.Commands{}).String(), "release-sha256")
	require.NoError(t, resourcetest.Apply(t, h, Install{Release: Release{Version: "8.2.4", Resource: file, SHA256: sumOf(data), Arch: "amd64"}}))
}

func TestEmptyResourceIsIgnored(t *testing.T) {
	h := machine(t)
	r := Install{Release: Release{Version: "8.2.5", Resource: attach(t, nil), Arch: "amd64"}}
	require.Contains(t, resourcetest.Ops(t, h, r), "download Concourse 8.2.5")
}

// D15: nothing but a version becomes part of a path or an address.
func TestReleaseRefusesInvalidVersions_D15(t *testing.T) {
	for _, r := range []Release{
		{Version: "latest", Arch: "amd64"}, {Version: "../x", Arch: "amd64"}, {Arch: "amd64"},
		{Version: "8.2.5", Arch: "s390x"}, {Version: "8.2.5", Arch: "amd64", SHA256: "AB"},
	} {
		_, err := Install{Release: r}.Diff(context.Background(), machine(t))
		require.ErrorContains(t, err, "cannot plan the release")
	}
}

// D66: the address follows the architecture.
func TestReleaseURL_D66(t *testing.T) {
	r := Release{Version: "8.2.5", Arch: "arm64"}
	u, err := r.url()
	require.NoError(t, err)
	require.Equal(t, "https://github.com/concourse/concourse/releases/download/v8.2.5/concourse-8.2.5-linux-arm64.tgz", u.String())
}

func TestChecksumTableIsConsistent(t *testing.T) {
	seen := map[[2]string]bool{}
	for _, c := range checksums() {
		require.NoError(t, CheckVersion(c.Version))
		require.Contains(t, []string{"amd64", "arm64"}, c.Arch)
		require.Regexp(t, sumForm(), c.SHA256)
		require.NotEmpty(t, c.Source)
		require.False(t, seen[[2]string{c.Version, c.Arch}])
		seen[[2]string{c.Version, c.Arch}] = true
	}
	c, ok := knownSum([]checksum{{"8.2.5", "amd64", "a", "b"}, {"8.2.5", "arm64", "c", "d"}}, "8.2.5", "arm64")
	require.True(t, ok)
	require.Equal(t, "c", c.SHA256)
}

func TestEveryErrorIsTemporaryOrHasARemedy(t *testing.T) {
	var temporary interface{ Temporary() bool }
	require.True(t, errors.As(error(&NetworkError{}), &temporary))
	require.True(t, errors.As(error(&waitError{}), &temporary))
	for _, err := range []error{&notThereError{}, &noChecksumError{}, &checksumError{}, &VersionError{}, &badReleaseError{}, &tokenError{}, &storageError{Cause: status.Block("x").Run("y")}, &DowngradeError{}} {
		var remedy interface {
			Remedy(wellknown.Commands) status.Cause
		}
		require.ErrorAs(t, err, &remedy)
		require.Greater(t, len(remedy.Remedy(wellknown.Commands{}).String()), len(err.Error()))
	}
}
