package deviceplugin

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

func TestReconcile(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	held := func(kind lease.Kind, name string, ago time.Duration) lease.State {
		return lease.State{Held: true, Kind: kind, Container: name, Since: now.Add(-ago)}
	}
	starting := func(waited time.Duration) lease.State { return held(lease.Pod, lease.StartingPod, waited) }
	for _, c := range []struct {
		name  string
		state lease.State
		pod   string // that the kubelet lists with it
		notes map[int]bool
		want  change
	}{
		{"nobody has it", lease.State{}, "", nil, change{}},
		{"its last holder was a pod", lease.State{Kind: lease.Pod, Container: "a/b/c"}, "", nil, change{}},
		{"a pod has it", held(lease.Pod, "a/b/c", time.Hour), "a/b/c", nil, change{}},
		{"a pod that is not known yet", starting(0), "a/b/c", nil, change{hold: map[string][]int{"a/b/c": {0}}}},
		{"a pod, and nobody of the records", lease.State{}, "a/b/c", nil, change{hold: map[string][]int{"a/b/c": {0}}}},
		{"another pod", held(lease.Pod, "a/b/c", time.Hour), "a/d/c", nil, change{hold: map[string][]int{"a/d/c": {0}}}},
		{"a pod, and a task of the records", held(lease.Task, "t", 0), "a/b/c", nil, change{hold: map[string][]int{"a/b/c": {0}}}},
		{"the pod has ended", held(lease.Pod, "a/b/c", 0), "", nil, change{release: []int{0}}},
		{"a task has it", held(lease.Task, "t", time.Hour), "", map[int]bool{}, change{}},
		{"a container has it", held(lease.Container, "t", time.Hour), "", map[int]bool{}, change{}},
		{"a pod that starts", starting(59 * time.Second), "", map[int]bool{}, change{}},
		{"one that does so for long, notes not known", starting(time.Minute), "", nil, change{ask: true}},
		{"an init container", starting(time.Hour), "", map[int]bool{0: true}, change{ask: true}},
		{"one that never came", starting(time.Minute), "", map[int]bool{1: true}, change{release: []int{0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := map[int]string{}
			if c.pod != "" {
				pods[0] = c.pod
			}
			if c.want.hold == nil {
				c.want.hold = map[string][]int{}
			}
			require.Equal(t, c.want, reconcile([]lease.State{c.state}, pods, c.notes, map[int]time.Duration{0: now.Sub(c.state.Since)}))
		})
	}
}

// Whatever the kubelet and the records have: what a pod is listed with is not given back,
// nothing of a task's is, and what was done need not be done again.
func TestReconcileConverges(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{lease.StartingPod, "a/b/c", "a/d/c", "task"}
	kinds := []lease.Kind{lease.Task, lease.Container, lease.Pod, lease.Pod, ""}
	for range 20_000 {
		states, pods, notes := make([]lease.State, 1+r.IntN(4)), map[int]string{}, map[int]bool{}
		for i := range states {
			states[i] = lease.State{Held: r.IntN(3) > 0, Kind: kinds[r.IntN(len(kinds))], Container: names[r.IntN(len(names))],
				Since: now.Add(-time.Duration(r.IntN(120)) * time.Second)}
			if r.IntN(2) == 0 {
				pods[i] = names[1+r.IntN(2)]
			}
			notes[i] = r.IntN(2) == 0
		}
		waited := map[int]time.Duration{}
		for i, s := range states {
			waited[i] = now.Sub(s.Since)
		}
		c := reconcile(states, pods, notes, waited)
		for _, i := range c.release {
			require.Empty(t, pods[i])
			require.Equal(t, lease.Pod, states[i].Kind)
			states[i].Held = false
		}
		for pod, gpus := range c.hold {
			for _, i := range gpus {
				require.Equal(t, pod, pods[i])
				if !states[i].Held || states[i].Kind == lease.Pod { // otherwise Keep refuses
					states[i] = lease.State{Held: true, Kind: lease.Pod, Container: pod}
				}
			}
		}
		again := reconcile(states, pods, notes, waited)
		require.Empty(t, again.release)
		for _, gpus := range again.hold {
			for _, i := range gpus {
				require.NotEqual(t, lease.Pod, states[i].Kind, "only what a task has")
			}
		}
	}
}

func TestNamesOfResources(t *testing.T) {
	dev := func(id, style string) device { return device{Slot: gpu.Slot{PCI: id}, style: style} }
	whole := []device{dev("a", ""), dev("b", "")}
	cpx := []device{dev("a", "cpx_nps4"), dev("a-1", "cpx_nps4")}
	both := append(append([]device{dev("c", "spx_nps1")}, cpx...), whole[1])
	for _, c := range []struct {
		name, strategy string
		devices        []device
		want           map[string]int
		err            string
	}{
		{"whole GPUs", single, whole, map[string]int{"amd.com/gpu": 2}, ""},
		{"whole GPUs, mixed", mixed, whole, map[string]int{"amd.com/gpu": 2}, ""},
		{"partitions", single, cpx, map[string]int{"amd.com/gpu": 2}, ""},
		{"partitions, mixed", mixed, cpx, map[string]int{"amd.com/cpx_nps4": 2}, ""},
		{"no GPU", single, nil, map[string]int{"amd.com/gpu": 0}, ""},
		{"no GPU, mixed", mixed, nil, map[string]int{}, ""},
		{"different ones", single, both, map[string]int{"amd.com/gpu": 0}, "partitioned as cpx_nps4 and spx_nps1; partition them alike, or start with --resource-naming-strategy=mixed"},
		{"different ones, mixed", mixed, both, map[string]int{"amd.com/gpu": 1, "amd.com/cpx_nps4": 2, "amd.com/spx_nps1": 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			of, err := resources(c.strategy, c.devices)
			got := map[string]int{}
			for name, devices := range of {
				got[name] = len(devices)
			}
			require.Equal(t, c.want, got)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
