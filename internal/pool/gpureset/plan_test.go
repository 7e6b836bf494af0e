package gpureset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// world is a machine of four free GPUs, the second of which has been quarantined since a minute.
func world() World {
	at := hosttest.Now
	w := World{At: at, Open: map[string][]int{}}
	for i, name := range names {
		w.GPUs = append(w.GPUs, gpu.GPU{Slot: gpu.Slot{PCI: name, Index: i}})
		w.Links = append(w.Links, make([]gpu.Link, len(names)))
		w.Leases = append(w.Leases, lease.State{GPU: name})
		w.Record.GPUs = append(w.Record.GPUs, quarantine.GPU{Ref: quarantine.Ref{Name: name}, State: quarantine.InService})
	}
	g := &w.Record.GPUs[1]
	g.State, g.Since, g.QuarantinedBy = quarantine.Quarantined, at.Add(-time.Minute), quarantine.ByHealth
	g.Fault = &health.Fault{Kind: health.Hang}
	return w
}

// hive joins GPUs 1 and 2, and 2 and 3: a reset takes all three.
func hive(w *World) {
	for _, pair := range [][2]int{{1, 2}, {2, 3}} {
		w.Links[pair[0]][pair[1]].Hops, w.Links[pair[1]][pair[0]].Hops = 1, 1
	}
}

func TestOnlyAnIdleQuarantinedGPUIsReset(t *testing.T) {
	require.Equal(t, names[1], world().Plan())
	joined := world()
	hive(&joined)
	group, err := joined.Check(names[1])
	require.NoError(t, err)
	require.Equal(t, names[1:], group)

	reset := func(results ...Result) func(*World) {
		return func(w *World) {
			for i, result := range results {
				began := w.At.Add(-time.Duration(i+2) * time.Hour)
				w.Past.Attempts = append(w.Past.Attempts, Attempt{Name: names[1], Group: names[1:2], Began: began, Result: result})
			}
		}
	}
	g := func(change func(*quarantine.GPU)) func(*World) { return func(w *World) { change(&w.Record.GPUs[1]) } }
	for why, change := range map[string]func(*World){
		"the GPU belongs to the LXD host":                             func(w *World) { w.LXD = true },
		"GPUs are shared: a container may have it":                    func(w *World) { w.Leases = nil },
		"cannot see who has it open: EACCES":                          func(w *World) { w.OpenUnknown = "EACCES" },
		"process 77 has GPU 0000:43:00.0 open":                        func(w *World) { w.Open[names[1]] = []int{77} },
		"GPU 0000:43:00.0 is not leased, and a container may have it": func(w *World) { w.Leases = w.Leases[2:] },
		"the task of container c1 holds GPU 0000:43:00.0": func(w *World) {
			w.Leases[1] = lease.State{GPU: names[1], Held: true, Kind: lease.Task, Container: "c1"}
		},
		"pod n/p, container c holds GPU 0000:43:00.0": func(w *World) {
			w.Leases[1] = lease.State{GPU: names[1], Held: true, Kind: lease.Pod, Container: "n/p/c"}
		},
		"container c2 has GPU 0000:43:00.0 open": g(func(g *quarantine.GPU) { g.OpenIn = "c2" }),
		"the task of container c1 holds GPU 0000:c3:00.0": func(w *World) {
			hive(w)
			w.Leases[3] = lease.State{GPU: names[3], Held: true, Kind: lease.Task, Container: "c1"}
		},
		"process 77 has GPU 0000:83:00.0 open": func(w *World) { hive(w); w.Open[names[2]] = []int{77} },
		"its fault may end by itself":          g(func(g *quarantine.GPU) { g.Since = hosttest.Now.Add(-time.Second) }),
		"it is missing":                        func(w *World) { w.GPUs = w.GPUs[2:] },
		"it was reset 2 times within a day":    reset(Done, Interrupted),
		"a reset did not end its fault": func(w *World) {
			w.Past.Attempts = []Attempt{{Name: names[2], Group: names[1:3], Began: w.At.Add(-time.Second), Result: Failed}}
		},
	} {
		t.Run(why, func(t *testing.T) {
			w := world()
			change(&w)
			_, err := w.Check(names[1])
			require.EqualError(t, err, why)
			require.Empty(t, w.Plan())
		})
	}
	for name, change := range map[string]func(*quarantine.GPU){
		"in service":          func(g *quarantine.GPU) { g.State = quarantine.InService },
		"in probation":        func(g *quarantine.GPU) { g.State = quarantine.OnProbation },
		"quarantined by hand": func(g *quarantine.GPU) { g.QuarantinedBy = quarantine.ByHand },
		"a common cause":      func(g *quarantine.GPU) { g.CommonCause = true },
		"a hardware defect":   func(g *quarantine.GPU) { g.Fault = &health.Fault{Kind: health.BadPages} },
		"crashes of tasks":    func(g *quarantine.GPU) { g.Fault = &health.Fault{Kind: "failed_tasks"} },
	} {
		w := world()
		g(change)(&w)
		_, err := w.Check(names[1])
		require.EqualError(t, err, "it has no fault that a reset ends", name)
	}
	w := world()
	reset(Stopped, Stopped, Stopped, Done)(&w)
	require.Equal(t, names[1], w.Plan(), "attempts that were stopped do not count")
}
