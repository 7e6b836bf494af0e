package lease

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// own is a container of another engine, with a finished create.
func (w *world) own(id string, l Leases, gpus int) (c Call, init int) {
	c = w.call(id, w.spawn(""))
	c.OwnProcess = true
	_, err := l.Take(c, Want{Count: gpus})
	require.NoError(w.t, err)
	return c, w.up(c)
}

// holders are who holds each GPU, by kind and name.
func holders(t *testing.T, l Leases) (list []string) {
	t.Helper()
	states, _, err := l.Read()
	require.NoError(t, err)
	for _, s := range states {
		text := ""
		if s.Held {
			text = string(s.Kind) + " " + s.Container
		}
		list = append(list, text)
	}
	return list
}

// Its first process is the work: nothing is awaited, whatever time goes by.
func TestContainerHoldsAsLongAsItsFirstProcess(t *testing.T) {
	for name, end := range map[string]func(w *world, c Call, init int){
		"it ends":                      func(w *world, _ Call, init int) { w.reap(init) },
		"nobody has waited for it yet": func(w *world, _ Call, init int) { w.die(init) },
		"its bundle is removed with it": func(w *world, c Call, init int) {
			w.reap(init)
			require.NoError(t, os.RemoveAll(c.Bundle))
		},
		"another process has its number": func(w *world, _ Call, init int) {
			w.reap(init)
			w.pick = func([]int) int { return init }
			w.spawn("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			l := w.leases("a", "b")
			c, init := w.own("c1", l, 1)
			w.clock = w.clock.Add(26 * time.Hour)
			require.Equal(t, []string{"container c1", ""}, holders(t, l))
			end(w, c, init)
			require.Equal(t, []string{"", ""}, holders(t, l))
		})
	}
}

func TestContainerHoldsFromItsCreate(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	c := w.call("c1", w.spawn(""))
	c.OwnProcess = true
	_, err := l.Take(c, Want{Count: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"container c1"}, holders(t, l), "its create is there")
	w.reap(c.PID)
	require.Equal(t, []string{""}, holders(t, l), "it was killed, and left no process")
	l.pid = w.spawn("")
	c.PID = l.pid
	_, err = l.Take(c, Want{Count: 1})
	require.NoError(t, err)
	require.NoError(t, l.Cancel("c1"))
	require.Equal(t, []string{""}, holders(t, l))
}

// A privileged process can leave its cgroup. One that was seen at its start is known by its
// start time; before, being process 1 of a namespace must do.
func TestContainerThatLeavesItsCgroupStillHolds(t *testing.T) {
	for _, seen := range []bool{true, false} {
		w := newWorld(t, true)
		l := w.leases("a")
		c, init := w.own("c1", l, 1)
		if seen {
			start := c
			start.PID = w.spawn("")
			require.NoError(t, l.Enter(start, []int{0}))
			w.reap(start.PID)
		}
		w.move(init, "")
		require.Equal(t, []string{"container c1"}, holders(t, l))
		if seen {
			require.NoError(t, os.RemoveAll(c.Bundle))
			require.Equal(t, []string{"container c1"}, holders(t, l), "whatever becomes of its files")
		}
		w.reap(init)
		require.Equal(t, []string{""}, holders(t, l))
		w.pick = func([]int) int { return init }
		w.spawn("garden/c2")
		require.Equal(t, map[bool]string{true: "", false: "container c1"}[seen], holders(t, l)[0], "the first of another has its number: the safe side")
	}
}

func TestExecIntoAContainerNeedsThatItHolds(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	c, init := w.own("c1", l, 1)
	exec := c
	exec.PID = w.spawn("")
	require.NoError(t, l.Enter(exec, []int{0}))
	w.reap(exec.PID)
	require.Equal(t, []string{"container c1", ""}, holders(t, l))
	states, n, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, State{GPU: "a", Held: true, Kind: Container, Container: "c1", Since: w.clock, PID: init}, states[0])
	require.Equal(t, uint64(1), n.Granted, "no other lease")

	_, err = l.Release(0, true)
	require.NoError(t, err)
	other := w.call("c2", w.spawn(""))
	_, err = l.Take(other, Want{Of: []int{0}, Count: 1})
	require.NoError(t, err)
	exec.PID = w.spawn("")
	require.ErrorContains(t, l.Enter(exec, []int{0}), "cannot use 1 GPU in container c1: its lease was released, and since then 0 (a) is held by the task of container c2")
}

// docker restart makes it again under its name: it takes what is free then.
func TestContainerRecreatedUnderItsName(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	_, init := w.own("c1", l, 1)
	w.reap(init)
	_, _ = w.own("c2", l, 1) // on b, which no container has had
	_, init = w.own("c1", l, 1)
	require.Equal(t, []string{"container c1", "container c2"}, holders(t, l), "each got the GPU that was free longest")
	w.reap(init)
	require.Equal(t, []string{"", "container c2"}, holders(t, l))
}

func TestPodHoldsUntilReleasePod(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b", "c")
	began := w.clock
	require.NoError(t, l.HoldForPod(StartingPod, []int{1, 0}, nil))
	w.clock = w.clock.Add(time.Minute)
	require.NoError(t, l.HoldForPod("n/p/main", []int{0, 1}, nil))
	w.clock = w.clock.Add(26 * time.Hour)
	require.NoError(t, l.HoldForPod("n/p/main", []int{0, 1}, map[int]string{0: "is quarantined"}), "what it keeps already")
	states, n, err := l.Read()
	require.NoError(t, err)
	require.Equal(t, State{GPU: "a", Held: true, Kind: Pod, Container: "n/p/main", Since: began}, states[0], "since it was handed out")
	require.Equal(t, Counters{Granted: 1}, n)
	require.NoError(t, l.ReleasePod([]int{0, 1, 2}))
	require.Equal(t, []string{"", "", ""}, holders(t, l))
	states, n, err = l.Read()
	require.NoError(t, err)
	require.Equal(t, "n/p/main", states[0].Container, "who held it last is known")
	require.Equal(t, uint64(2*time.Hour.Milliseconds()*26+2*time.Minute.Milliseconds()), n.HeldMS)
	require.NoError(t, l.HoldForPod("n/p/main", []int{2}, nil))
	w.boot("boot-2")
	require.Equal(t, []string{"", "", ""}, holders(t, l))
}

func TestPodIsRefusedHeldGPUs(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b", "c")
	w.own("c1", l, 1)
	for _, c := range []struct {
		name        string
		gpus        []int
		quarantined map[int]string
		want        string
	}{
		{"a container has one", []int{0, 1}, nil, "cannot lease 2 GPUs: 1 of the 2 that the pod names is free; 0 (a) is held by container c1 of another engine since 22:13:20 UTC (0s)"},
		{"one is quarantined", []int{1, 2}, map[int]string{2: "has been quarantined since noon"}, "cannot lease 2 GPUs: 1 of the 2 that the pod names can be given; GPU 2 has been quarantined since noon"},
		{"one is not there", []int{3}, nil, "cannot lease GPU 3: this machine has 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.EqualError(t, l.HoldForPod("n/p/main", c.gpus, c.quarantined), c.want)
			require.Equal(t, []string{"container c1", "", ""}, holders(t, l), "all or none")
		})
	}
	require.NoError(t, l.ReleasePod([]int{0, 1, 2}))
	require.Equal(t, []string{"container c1", "", ""}, holders(t, l), "it is no pod's")
	var refused *Refusal
	require.True(t, errors.As(l.HoldForPod("n/p/main", []int{0}, nil), &refused))
	require.Equal(t, Pod, refused.Kind)
	require.NoError(t, l.HoldForPod("n/p/main", nil, nil))
}

// A claim and a pod of the device plugin are kept apart, and a claim from all other claims.
func TestClaimHoldsUntilReleaseClaim(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b", "c")
	mine, other := Claim{"team-a", "train", "1"}, Claim{"team-a", "train", "2"}
	require.NoError(t, l.HoldForClaim(mine, []int{0, 1}, nil))
	require.NoError(t, l.HoldForClaim(mine, []int{0, 1}, map[int]string{0: "is quarantined"}), "what it has already")
	const has = "is held by claim team-a/train since 22:13:20 UTC (0s; see kubectl --namespace team-a get resourceclaim train)"
	require.ErrorContains(t, l.HoldForClaim(other, []int{1, 2}, nil), has)
	require.ErrorContains(t, l.HoldForPod(StartingPod, []int{0}, nil), has)
	require.NoError(t, l.HoldForPod("n/p/main", []int{2}, nil))
	require.ErrorContains(t, l.HoldForClaim(other, []int{2}, nil), "is held by pod n/p, container main")
	require.NoError(t, l.ReleasePod([]int{0, 1}))
	require.NoError(t, l.ReleaseClaim(other))
	require.Equal(t, []string{"claim team-a/train/1", "claim team-a/train/1", "pod n/p/main"}, holders(t, l))
	require.NoError(t, l.ReleaseClaim(mine))
	require.NoError(t, l.ReleaseClaim(mine))
	require.Equal(t, []string{"", "", "pod n/p/main"}, holders(t, l))
	states, _, err := l.Read()
	require.NoError(t, err)
	last, is := states[0].Claim()
	require.True(t, is)
	require.Equal(t, mine, last)

	require.NoError(t, l.HoldForClaim(mine, []int{0, 1}, nil))
	fewer := w.leases("b")
	require.NoError(t, fewer.ReleaseClaim(mine), "a GPU went missing while it was leased")
	require.Equal(t, []string{"", "", "pod n/p/main"}, holders(t, l))
}

func TestSharingClaimsHaveAGPUThatNoOneHasAlone(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a", "b")
	alone := Claim{"team-a", "train", "1"}
	require.NoError(t, l.HoldForClaim(alone, []int{1}, nil))
	require.ErrorContains(t, l.HoldForSharingClaims(1, nil), "is held by claim team-a/train")
	require.ErrorContains(t, l.HoldForSharingClaims(0, map[int]string{0: "is quarantined"}), "is quarantined")
	require.NoError(t, l.HoldForSharingClaims(0, nil))
	require.NoError(t, l.HoldForSharingClaims(0, map[int]string{0: "is quarantined"}), "the caller refuses new claims")
	_, err := l.Take(w.call("c1", w.spawn("")), Want{Count: 1, Of: []int{0}})
	require.ErrorContains(t, err, "0 (a) is held by claims that share it since 22:13:20 UTC (0s)")
	require.ErrorContains(t, l.HoldForClaim(alone, []int{0}, nil), "is held by claims that share it")
	states, _, err := l.Read()
	require.NoError(t, err)
	_, one := states[0].Claim()
	require.False(t, one)
	require.NoError(t, l.ReleaseSharingClaims([]int{0, 1}))
	require.Equal(t, []string{"", "claim team-a/train/1"}, holders(t, l))
}

func TestTaskIsRefusedGPUsOfAPod(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	require.NoError(t, l.HoldForPod("team-a/train-0/main", []int{0}, nil))
	_, err := l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.ErrorContains(t, err, "0 (a) is held by pod team-a/train-0, container main since 22:13:20 UTC (0s; see kubectl --namespace team-a get pod train-0)")
	require.NoError(t, l.HoldForPod(StartingPod, []int{0}, nil))
	_, err = l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.ErrorContains(t, err, "0 (a) is held by a pod that is starting since 22:13:20 UTC (0s)")
}

func TestContainersAreShownByTheirEngines(t *testing.T) {
	id := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for bundle, want := range map[string][2]string{
		"/run/containerd/io.containerd.runtime.v2.task/moby/" + id:           {"container 0123456789ab of docker", "docker ps --filter id=0123456789ab"},
		"/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id:         {"container 0123456789ab of containerd", "ctr --namespace k8s.io containers info " + id},
		"/var/lib/containers/storage/overlay-containers/" + id + "/userdata": {"container 0123456789ab of podman", "podman ps --filter id=0123456789ab"},
		"/x": {"container 0123456789ab of another engine", ""},
	} {
		s := State{Kind: Container, Container: id, Engine: engineOf(bundle)}
		require.Equal(t, want, [2]string{s.Holder(), s.InspectCommand()}, bundle)
	}
}
