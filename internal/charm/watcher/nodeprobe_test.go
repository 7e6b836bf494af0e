package watcher

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A separate process opens a task's GPU each minute. If it hangs, the GPU is quarantined.
func TestGPUWithHangingNodeIsQuarantined(t *testing.T) {
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

	// The process lives, and writes nothing more.
	begun, err := json.Marshal(probeResult{Begun: u.Host.Now().UTC()})
	require.NoError(t, err)
	hosttest.Put(t, u.Host.Root, probeFile(opened[0]).Path, string(begun))
	unlock, err := u.Host.TryLock(probeLock(opened[0]))
	require.NoError(t, err)
	require.Empty(t, look(), "not for long yet")
	require.Contains(t, look(), "GPU 1 (0000:43:00.0): quarantined: its driver does not come back when its node is opened\n")
	require.Len(t, opened, 1, "no second one, that would hang as well")
	unlock()
	look()
	require.Contains(t, quarantinedNow(t, u.Host.Root), "healthy again since")
}

func TestNodeProbeWritesItsResult(t *testing.T) {
	u := leaseUnit(t, leasing())
	const name = "0000:43:00.0"
	require.NoError(t, u.OpenNode(t.Context(), nil, name))
	a, running := u.readProbe(name)
	require.False(t, running)
	require.NotNil(t, a.Ended)
	require.NoError(t, u.OpenNode(t.Context(), nil, "0000:99:00.0"), "one that is gone is the exporter's to tell")

	for node, want := range map[quarantine.Node]bool{"": false, "EACCES": false, "ENOENT": false, "ENOTTY": false, quarantine.NodeGone: true, quarantine.NodeFails: true} {
		watchedBy(t, u)
		runs(t, u.Host.Root, "4711")
		now := u.Host.Now().UTC()
		require.NoError(t, probeFile(name).Write(u.Host.Root, probeResult{Begun: now, Ended: &now, Node: node}))
		l := quarantine.Look{GPUs: []quarantine.Reading{{Slot: gpu.Slot{PCI: name, GFX: "gfx90a"}, Up: true}, {Slot: gpu.Slot{PCI: "0000:23:00.0", GFX: "gfx90a"}, Up: true}},
			Tasks: []quarantine.Task{{Container: "c", GPUs: []string{name}}}, At: now, Policy: quarantine.Auto}
		require.Empty(t, u.addNodes(&l, quarantine.Record{}), "not again within a minute")
		r := quarantine.Decide(quarantine.Record{}, l)
		require.Equal(t, want, r.Find(name).State == quarantine.Quarantined, node)
	}
	for _, damaged := range []string{"", "{", "[]", `{"begun":1}`} {
		hosttest.Put(t, u.Host.Root, probeFile(name).Path, damaged)
		a, _ := u.readProbe(name)
		require.Zero(t, a, damaged)
	}
}
