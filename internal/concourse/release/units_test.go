package release

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// A unit that is killed between two steps, wherever, converges, and so does
// another unit that runs in between.
func TestSharedReleaseConvergesWhenKilledAfterEachStep(t *testing.T) {
	m := newMirror(t)
	for _, v := range []string{"8.2.3", "8.2.4", "8.2.5"} {
		m.put(v, tarball(t, releaseEntries(v)...), true)
	}
	for killed := 0; ; killed++ {
		a, b := sharing(t)
		for _, v := range []string{"8.2.3", "8.2.4"} {
			require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", v)))
		}
		p := planned(t, a, m.shared("web/0", "8.2.5"))
		if killed > len(p) {
			require.Equal(t, 5, killed, "record, install, switch and removal were killed")
			break
		}
		applied(t, p[:killed])
		require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")), "killed after %d steps", killed)
		require.Empty(t, resourcetest.Ops(t, b, m.shared("worker/0", "8.2.5")), "killed after %d steps", killed)
		require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.5")), "killed after %d steps", killed)
		for unit, h := range map[string]host.Host{"web/0": a, "worker/0": b} {
			require.Empty(t, resourcetest.Ops(t, h, m.shared(unit, "8.2.5")), "killed after %d steps", killed)
			require.Equal(t, "8.2.5", inUse(t, h))
		}
		require.True(t, a.Exists(Dir+"/8.2.4"), "the previous release is kept, killed after %d steps", killed)
		require.False(t, a.Exists(Dir+"/8.2.3"))
	}
}

// The install is one step, so what a kill inside of it leaves is tried here.
func TestSharedInstallResumesAfterAKilledOne(t *testing.T) {
	data := tarball(t, releaseEntries("8.2.5")...)
	for name, left := range map[string]map[string]string{
		"a half download":      {downloadDir + "/" + name825 + ".part": "half"},
		"a download, not used": {downloadDir + "/" + name825: string(data)},
		"another version's":    {downloadDir + "/concourse-8.2.4-linux-amd64.tgz": "old"},
		"half unpacked":        {Dir + "/.unpack-8.2.5/bin/concourse": "half"},
		"another's unpacking":  {Dir + "/.unpack-8.2.4/bin/concourse": "half"},
		"half removed":         {Dir + "/.unpack-old-8.2.5/" + originName: `{"version":"8.2.5"}`},
		"no record":            {unitsDir + "/.worker-0.12~": "half"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := sharing(t)
			m := newMirror(t)
			m.put("8.2.5", data, true)
			for file, text := range left {
				hosttest.Put(t, a.Root, file, text)
			}
			require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")))
			require.Equal(t, "8.2.5", inUse(t, b))
			require.Empty(t, resourcetest.Ops(t, b, m.shared("worker/0", "8.2.5")))
			found, err := a.Glob(Dir + "/.*")
			require.NoError(t, err)
			require.Empty(t, found)
			require.LessOrEqual(t, tarballs(m), 1)
		})
	}
}

// A download that is complete when its unit is killed is not done again.
func TestSharedInstallUsesTheDownloadOfAnotherUnit(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	data := tarball(t, releaseEntries("8.2.5")...)
	m.put("8.2.5", data, true)
	hosttest.Put(t, a.Root, downloadDir+"/"+name825, string(data))
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")))
	require.Zero(t, tarballs(m))
}

func TestRecordsOfUnitsKeepTheirReleases(t *testing.T) {
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		record string
		age    time.Duration // of the file
		kept   bool
	}{
		"named, seen yesterday":   {record: `{"unit":"worker/7","releases":["8.2.3"],"seen":"` + hosttest.Now.Add(-day).Format(time.RFC3339) + `"}`, kept: true},
		"named, seen 29 days ago": {record: `{"releases":["8.2.2","8.2.3"],"seen":"` + hosttest.Now.Add(-29*day).Format(time.RFC3339) + `"}`, kept: true},
		"named, 31 days ago":      {record: `{"releases":["8.2.3"],"seen":"` + hosttest.Now.Add(-31*day).Format(time.RFC3339) + `"}`},
		"names another":           {record: `{"releases":["8.2.2"],"seen":"` + hosttest.Now.Format(time.RFC3339) + `"}`},
		"can't be read":           {record: `{"releases":`, kept: true},
		"names a path":            {record: `{"releases":["../x"]}`, kept: true},
		"can't be read, old":      {record: `{"releases":`, age: 31 * day},
		"the unit's own":          {},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := sharing(t)
			m := newMirror(t)
			if tc.record != "" {
				hosttest.Put(t, a.Root, UnitRecord("worker/7"), tc.record)
				when := hosttest.Now.Add(-tc.age)
				require.NoError(t, os.Chtimes(a.Path(UnitRecord("worker/7")), when, when))
			}
			for _, v := range []string{"8.2.3", "8.2.4", "8.2.5"} {
				m.put(v, tarball(t, releaseEntries(v)...), true)
				require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", v)))
			}
			require.Empty(t, resourcetest.Ops(t, a, m.shared("web/0", "8.2.5")))
			require.Equal(t, tc.kept, a.Exists(Dir+"/8.2.3"))
		})
	}
}

func TestRecordIsRenewedOnceADay(t *testing.T) {
	a, _ := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.5")))
	for after, want := range map[time.Duration][]string{
		23 * time.Hour:  {},
		25 * time.Hour:  {"note in /var/lib/concourse/units/web-0 that this unit needs 8.2.5"},
		-25 * time.Hour: {"note in /var/lib/concourse/units/web-0 that this unit needs 8.2.5"}, // a clock that was wrong
	} {
		a.Clock = hosttest.Clock{T: hosttest.Now.Add(after)}
		require.Equal(t, want, resourcetest.Ops(t, a, m.shared("web/0", "8.2.5")), after)
	}
}

// at runs something when the clock is looked at, which removal does between
// its looks at the records.
type at func()

func (f at) Now() time.Time { f(); return hosttest.Now }

func (at) Sleep(time.Duration) {}

// A unit that names a release while another is removing it has it back, or
// finds out before it links it.
func TestReleaseThatAUnitJustNamedIsNotRemoved(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	for _, v := range []string{"8.2.3", "8.2.4", "8.2.5"} {
		m.put(v, tarball(t, releaseEntries(v)...), true)
		if v != "8.2.5" {
			require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", v)))
		}
	}
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.4")))
	removal := planned(t, a, m.shared("web/0", "8.2.5"))
	applied(t, removal[:len(removal)-1])
	require.Equal(t, "remove "+Dir+"/8.2.3", removal[len(removal)-1].Op)

	// worker/0 goes for 8.2.3 after the first look of web/0 at its record.
	back := planned(t, b, m.shared("worker/0", "8.2.3"))
	named := false
	a.Clock = at(func() {
		if !named {
			named = true
			applied(t, back[:1])
		}
	})
	r := m.shared("web/0", "8.2.5")
	require.NoError(t, r.removeShared(a, Dir+"/8.2.3"))
	require.True(t, named)
	require.True(t, a.Exists(Dir+"/8.2.3"))
	applied(t, back[1:])
	require.Equal(t, "8.2.3", inUse(t, b))

	// Killed after it took the name away, web/0 leaves a release that is not there.
	again := planned(t, a, m.shared("web/0", "8.2.4"))
	_, err := takeName(a.Root, Dir+"/8.2.4")
	require.NoError(t, err)
	require.Equal(t, "switch /opt/concourse-ci-machine/release to 8.2.4", again[0].Op)
	var wait *waitError
	require.ErrorAs(t, again[0].Do(t.Context()), &wait)
	require.Equal(t, "Another unit removed Concourse 8.2.4, installing it again...", wait.Waiting())
	require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.4")))
	require.Equal(t, "8.2.4", inUse(t, a))
}

// While a unit installs, its downloads are not taken for leftovers.
func TestNothingIsRemovedWhileAnotherUnitInstalls(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.5")))
	hosttest.Put(t, a.Root, downloadDir+"/concourse-8.2.6-linux-amd64.tgz.part", "half")
	hosttest.Put(t, a.Root, Dir+"/.unpack-8.2.6/bin/concourse", "half")
	due := planned(t, a, m.shared("web/0", "8.2.5"))
	require.Len(t, due, 2)
	unlock, err := tryLock(b.Root)
	require.NoError(t, err)
	require.Empty(t, resourcetest.Ops(t, a, m.shared("web/0", "8.2.5")))
	applied(t, due) // planned a moment before
	require.True(t, a.Exists(downloadDir))
	unlock()
	require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.5")))
	require.False(t, a.Exists(downloadDir))
	require.Empty(t, resourcetest.Ops(t, a, m.shared("web/0", "8.2.5")))
}

func TestSharedReleaseNeedsAUnit(t *testing.T) {
	a, _ := sharing(t)
	for _, unit := range []string{"", "../x", "a/b/c"} {
		_, err := newMirror(t).shared(unit, "8.2.5").Diff(t.Context(), a)
		require.ErrorContains(t, err, "is not a unit")
	}
}

func TestAttachedReleaseIsSharedToo(t *testing.T) {
	a, b := sharing(t)
	file := attach(t, tarball(t, releaseEntries("8.2.5")...))
	want := func(unit string) Install {
		return Install{Release: Release{Resource: file, Arch: "amd64", Shared: true, Unit: unit}}
	}
	require.Contains(t, resourcetest.Ops(t, a, want("web/0")), "install the attached Concourse release into the shared storage")
	require.NoError(t, resourcetest.Apply(t, a, want("web/0")))
	require.NoError(t, resourcetest.Apply(t, b, want("worker/0")))
	require.Equal(t, "8.2.5", inUse(t, b))
	require.Empty(t, resourcetest.Ops(t, a, want("web/0")))
	require.Empty(t, resourcetest.Ops(t, b, want("worker/0")))
}

func FuzzUnitRecord(f *testing.F) {
	f.Add([]byte(`{"unit":"worker/7","releases":["8.2.3"],"seen":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"releases":["../.."]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := recordFile("/x").Decode(data)
		for _, id := range u.Releases {
			if err == nil && !plainName(id) {
				t.Fatal(id)
			}
		}
	})
}
