package watcher

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
	"concourse-ci-machine/internal/testutil/hosttest"
)

// A GPU that a task has is opened each minute by a process of its own, and one that does
// not come back withholds it.
func TestNodeThatHangsWhoOpensItWithholdsItsGPU(t *testing.T) {
	u := leaseUnit(t, leasing())
	watchedBy(t, u)
	workerOf(t, u, nil)
	var opened []string
	u.Start = func(args ...string) error {
		require.Equal(t, []string{"gpu", "open"}, args[:2])
		opened = append(opened, args[2])
		return nil
	}
	look := func() string { u.after(6 * time.Second); return watched(t, u) }
	look()
	require.Empty(t, opened, "nobody has a GPU: they may sleep")

	runs(t, u.Host.Root, "4711")
	taken(t, u, "4f1c", 4711, 0, lease.Want{Count: 1, Of: []int{1}})
	look()
	require.Equal(t, []string{"0000:43:00.0"}, opened)

	// The process is there, and writes nothing more.
	begun, err := json.Marshal(nodeAnswer{Begun: u.Host.Now().UTC()})
	require.NoError(t, err)
	hosttest.Put(t, u.Host.Root, answerFile(opened[0]), string(begun))
	unlock, err := u.Host.TryLock(answerLock(opened[0]))
	require.NoError(t, err)
	require.Empty(t, look(), "not for long yet")
	require.Contains(t, look(), "GPU 1 (0000:43:00.0): withheld: its driver does not come back when its node is opened\n")
	require.Len(t, opened, 1, "no second one, that would hang as well")
	unlock()
	look()
	require.Contains(t, withheldNow(t, u.Host.Root), "well again since")
}

func TestNodeIsOpenedAndToldOf(t *testing.T) {
	u := leaseUnit(t, leasing())
	const name = "0000:43:00.0"
	require.NoError(t, u.OpenNode(t.Context(), nil, name))
	a, running := u.answered(name)
	require.False(t, running)
	require.NotNil(t, a.Ended)
	require.NoError(t, u.OpenNode(t.Context(), nil, "0000:99:00.0"), "one that is gone is the exporter's to tell")

	for node, want := range map[quarantine.Node]bool{"": false, "EACCES": false, "ENOENT": false, "ENOTTY": false, quarantine.NodeGone: true, quarantine.NodeFails: true} {
		watchedBy(t, u)
		runs(t, u.Host.Root, "4711")
		now := u.Host.Now().UTC()
		require.NoError(t, u.writeAnswer(name, nodeAnswer{Begun: now, Ended: &now, Node: node}))
		l := quarantine.Look{GPUs: []quarantine.Reading{{Name: name, GFX: "gfx90a", Up: true}, {Name: "0000:23:00.0", GFX: "gfx90a", Up: true}},
			Tasks: []quarantine.Task{{Container: "c", GPUs: []string{name}}}, At: now, Policy: quarantine.Auto}
		require.Empty(t, u.seeNodes(&l, quarantine.Record{}), "not again within a minute")
		r := quarantine.Decide(quarantine.Record{}, l)
		require.Equal(t, want, r.Find(name).State == quarantine.Quarantined, node)
	}
	for _, damaged := range []string{"", "{", "[]", `{"begun":1}`} {
		hosttest.Put(t, u.Host.Root, answerFile(name), damaged)
		a, _ := u.answered(name)
		require.Zero(t, a, damaged)
	}
}
