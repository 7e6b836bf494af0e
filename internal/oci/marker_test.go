package oci

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// at makes the testbed's clock stand at a number of microseconds past a second.
func (b *testbed) at(micros int) {
	now := time.Date(2026, 1, 2, 3, 4, 5, micros*1000, time.UTC)
	b.now = func() time.Time { return now }
}

func (b *testbed) markers(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(b.path("state"))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestMarkerIsReplacedInOneStep(t *testing.T) {
	b := marked(t)
	old, err := os.Open(b.path("state/c1"))
	require.NoError(t, err)
	defer old.Close()
	require.NoError(t, os.Rename(b.path("bundle"), b.path("second")))
	require.NoError(t, b.call("create", "-b", b.path("second"), "c1"))
	data, err := os.ReadFile(b.path("state/c1"))
	require.NoError(t, err)
	require.Contains(t, string(data), b.path("second"))
	was, err := old.Stat()
	require.NoError(t, err)
	is, err := os.Stat(b.path("state/c1"))
	require.NoError(t, err)
	require.False(t, os.SameFile(was, is), "an exec that reads the old one never sees half of the new one")
	require.Equal(t, []string{"c1"}, b.markers(t))
}

// A link of that name was not made by this program, and is not followed.
func TestMarkerIsNotWrittenThroughALink(t *testing.T) {
	b := marked(t)
	require.NoError(t, os.Remove(b.path("state/c1")))
	b.put(t, "elsewhere", "untouched")
	require.NoError(t, os.Symlink(b.path("elsewhere"), b.path("state/c1")))
	b.bundle(t, "task")
	require.NoError(t, b.create())
	st, err := os.Lstat(b.path("state/c1"))
	require.NoError(t, err)
	require.True(t, st.Mode().IsRegular())
	data, err := os.ReadFile(b.path("elsewhere"))
	require.NoError(t, err)
	require.Equal(t, "untouched", string(data))
}

// A create that is killed between the two steps of making a marker leaves an
// empty one. Its container was never there; one that is being made may be.
func TestOldEmptyMarkersAreRemoved(t *testing.T) {
	b := marked(t)
	b.at(0)
	b.put(t, "state/old", "")
	b.put(t, "state/young", "")
	require.NoError(t, os.Chtimes(b.path("state/old"), time.Time{}, b.now().Add(-2*time.Minute)))
	require.NoError(t, os.Chtimes(b.path("state/young"), time.Time{}, b.now()))
	b.bundle(t, "task")
	require.NoError(t, b.create())
	require.Equal(t, []string{"c1", "young"}, b.markers(t))
	require.ErrorContains(t, b.call("exec", "-p", b.path("process"), "young"), "cannot read marker")
}

// One create in sweepEvery looks at up to sweptAtOnce: twice as many as are added so void
// ones can't pile up, and no create pays for them all.
func TestVoidMarkersAreRemovedFasterThanNewOnesCome(t *testing.T) {
	b := marked(t)
	const void = 100
	for i := range void {
		b.put(t, "state/void"+strconv.Itoa(i), `{"bundle":"/nowhere"}`)
	}
	swept := 0
	for i := range sweepEvery {
		b.at(i + 1)
		b.bundle(t, "task")
		before := len(b.markers(t))
		require.NoError(t, b.create())
		if gone := before - len(b.markers(t)); gone > 0 {
			swept++
			require.LessOrEqual(t, gone, sweptAtOnce)
			require.GreaterOrEqual(t, gone, sweptAtOnce-1, "c1 may be among them")
		}
	}
	require.Equal(t, 1, swept)
	require.FileExists(t, b.path("state/c1"))
}

func TestMarkersOfAllSizesAreReadBack(t *testing.T) {
	m := markers{dir: filepath.Join(t.TempDir(), "state"), euid: uint32(os.Geteuid())}
	for i, value := range []string{"", "x", strings.Repeat("y", 500), strings.Repeat("z", 100_000)} {
		k := marker{bundle: "/bundle", process: edits.Process{Groups: []uint32{7, 992},
			Env: edits.Environment{Set: []string{"A=" + value}, Defaults: []string{"B=\n\"" + value}}}}
		if i > 0 {
			k.lease = heldLease{gpus: []string{"0", "GPU-" + value}, pidFile: "/bundle/\"" + value, cgroup: value}
		}
		require.NoError(t, m.save("c"+strconv.Itoa(i), k))
		got, err := m.load("c" + strconv.Itoa(i))
		require.NoError(t, err)
		require.Equal(t, k, got)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(m.dir, "blocked", "file"), 0o700))
	require.ErrorContains(t, m.save("blocked", marker{bundle: "/bundle"}), "cannot write marker of container blocked: ")
}

func TestWaitWhenAllGPUsAreHeld(t *testing.T) {
	runs, ended := lease.State{Held: true, Container: "c1"}, lease.State{Held: true, Container: "c2", TaskEnded: true}
	for name, c := range map[string]struct {
		refusal lease.Refusal
		want    time.Duration
	}{
		"by tasks that run": {lease.Refusal{Reason: lease.Busy, Kind: lease.Task,
			States: []lease.State{runs}}, 0},
		"by what a task left behind": {lease.Refusal{Reason: lease.Busy, Kind: lease.Task,
			States: []lease.State{runs, ended}}, quarantineTime},
		"a container, by the same": {lease.Refusal{Reason: lease.Busy, Kind: lease.Container,
			States: []lease.State{ended}}, 0},
		"fly intercept, by the same": {lease.Refusal{Reason: lease.Busy, Kind: lease.Task,
			States: []lease.State{ended}, PreviousContainer: "c3"}, 0},
		"and there are fewer than wanted": {lease.Refusal{Reason: lease.Impossible, Kind: lease.Task,
			States: []lease.State{ended}}, 0},
	} {
		require.Equal(t, c.want, waitLimit(&c.refusal), name)
	}
}

// Programs of other versions read these files.
func TestMarkerFileFormat(t *testing.T) {
	k := marker{bundle: "/b", lease: heldLease{gpus: []string{"a"}, pidFile: "/p", cgroup: "g", ownProcess: true}}
	k.process.Groups, k.process.Env.Set, k.process.Env.Defaults = []uint32{44, 992}, []string{"A=b"}, []string{"C=d"}
	require.Equal(t, `{"format_version":1,"bundle":"/b","groups":[44,992],"set":["A=b"],"defaults":["C=d"],`+
		`"lease":{"gpus":["a"],"pid_file":"/p","cgroup":"g","own":true}}`, string(k.appendTo(nil)))
}
