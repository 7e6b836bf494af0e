package deviceplugin

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func shares(replicas int, gpus string) func(*options) {
	return func(o *options) { o.replicas, o.shared = replicas, gpus }
}

// sharing is a plugin on a unit that leases 2 GPUs, of which it shares the first, and what
// the kubelet watches by resource.
func sharing(t *testing.T) (*plugin, *kubelet, map[string]*watched) {
	t.Helper()
	r := hosttest.ManyGPUs(t, 3)
	exclusive(t, r, 2)
	p, k, log := started(t, r, shares(3, "0"))
	k.start()
	turn(t, p)
	require.Empty(t, p.Trouble(), log)
	of := map[string]*watched{}
	for range 2 {
		w := <-k.plugins
		of[w.request.ResourceName] = w
	}
	return p, k, of
}

func healthy(ids ...string) map[string]string {
	of := map[string]string{}
	for _, id := range ids {
		of[id] = v1beta1.Healthy
	}
	return of
}

var replicas0 = healthy(gpu0+"::0", gpu0+"::1", gpu0+"::2")

func TestChosenGPUsAreOfferedSeveralTimes(t *testing.T) {
	p, _, of := sharing(t)
	require.Equal(t, replicas0, <-of["amd.com/gpu.shared"].lists)
	require.Equal(t, healthy(gpu1), <-of["amd.com/gpu"].lists)
	keep(t, p.root, gpu0, "has been quarantined")
	turn(t, p)
	list := <-of["amd.com/gpu.shared"].lists
	require.Len(t, list, 3)
	require.NotContains(t, slices.Collect(maps.Values(list)), v1beta1.Healthy)
	_, err := of["amd.com/gpu.shared"].allocate(gpu0 + "::1")
	require.ErrorContains(t, err, "has been quarantined")
}

func TestPodsThatShareAGPUHoldItTogether(t *testing.T) {
	p, k, of := sharing(t)
	w := of["amd.com/gpu.shared"]
	<-w.lists
	listed := []*podresources.PodResources{}
	for i, id := range []string{gpu0 + "::0", gpu0 + "::2"} {
		_, err := w.allocate(id)
		require.NoError(t, err)
		require.Equal(t, []string{lease.SharingPods, ""}, holders(t, p))
		listed = append(listed, pod("ci", []string{"a", "b"}[i], "main", "amd.com/gpu.shared", id))
	}
	k.pods = listed[:1] // b runs an init container, which the kubelet does not list
	turn(t, p)
	require.Empty(t, p.Trouble())
	_, err := p.seen.leases.Take(lease.Call{Container: "t", Bundle: "/b", PidFile: "/b/pid", Cgroup: "t", PID: 4711},
		lease.Want{Of: []int{0}, Count: 1})
	require.Error(t, err)
	k.pods = nil
	turn(t, p)
	require.Equal(t, []string{lease.SharingPods, ""}, holders(t, p), "b still starts")
	k.pods = listed[1:]
	turn(t, p)
	require.NoError(t, w.begin(gpu0+"::2"))
	k.pods = nil
	turn(t, p)
	require.Equal(t, []string{"", ""}, holders(t, p))
	require.Empty(t, w.lists, "what pods share stays listed")
	states, n, err := p.seen.leases.Read()
	require.NoError(t, err)
	require.False(t, states[0].Held)
	require.Equal(t, uint64(1), n.Granted, "one lease from the first pod to the last")
}

func TestSharedGPUOfATaskIsRefused(t *testing.T) {
	p, k, of := sharing(t)
	w := of["amd.com/gpu.shared"]
	<-w.lists
	end := taskTakes(t, p, 0)
	_, err := w.allocate(gpu0 + "::0")
	require.ErrorContains(t, err, "held by the task of container task-1")
	require.ErrorContains(t, w.begin(gpu0+"::0"), "task-1", "a pod that had it before a reboot waits")
	turn(t, p)
	require.Empty(t, <-w.lists)
	k.pods = []*podresources.PodResources{pod("ci", "a", "main", "amd.com/gpu.shared", gpu0+"::0")}
	turn(t, p)
	require.Contains(t, p.Trouble(), "task-1", "who has it twice is told")
	k.pods = nil
	end()
	turn(t, p)
	require.Equal(t, replicas0, <-w.lists)
}

// With leases the records show how pods have a GPU, without them the kubelet's list.
func TestGPUIsNotSharedWhileAPodHasItAlone(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, r host.Root){
		"leased": func(t *testing.T, r host.Root) { exclusive(t, r, 1) }, "not leased": func(*testing.T, host.Root) {},
	} {
		for _, c := range []struct {
			resource, id  string
			replicas      int
			other         string
			before, after map[string]string
		}{
			{"amd.com/gpu", gpu0, 1, "amd.com/gpu.shared", healthy(gpu0), replicas0},
			{"amd.com/gpu.shared", gpu0 + "::2", 3, "amd.com/gpu", replicas0, healthy(gpu0)},
		} {
			t.Run(name+" "+c.resource, func(t *testing.T) {
				r := hosttest.ManyGPUs(t, 1)
				prepare(t, r)
				p, k, log := started(t, r, shares(c.replicas, "all"))
				k.start()
				turn(t, p)
				w := <-k.plugins
				require.Equal(t, c.before, <-w.lists)
				_, err := w.allocate(c.id)
				require.NoError(t, err)
				k.pods = []*podresources.PodResources{pod("ci", "a", "main", c.resource, c.id)}
				turn(t, p)
				p.close()

				now := newPlugin(p.options, log)
				t.Cleanup(now.close)
				now.replicas = 4 - c.replicas
				turn(t, now)
				require.Empty(t, now.Trouble(), log)
				w = <-k.plugins
				require.Equal(t, c.other, w.request.ResourceName)
				require.Empty(t, <-w.lists)
				require.NoError(t, w.begin(c.id), "its container may restart")
				for id := range c.after {
					_, err = w.allocate(id)
					require.ErrorContains(t, err, "held by")
				}
				k.pods = nil
				turn(t, now)
				turn(t, now)
				require.Equal(t, c.after, <-w.lists)
			})
		}
	}
}

func TestReplicasOfOneContainerAreDifferentGPUs(t *testing.T) {
	p := newPlugin(options{}, nil)
	for _, id := range []string{"a", "b", "c"} {
		p.seen.devices = append(p.seen.devices, device{Slot: gpu.Slot{PCI: id}, replicas: 12})
	}
	for _, c := range []struct {
		free, must []string
		n          int
		want       []string
		err        string
	}{
		{[]string{"a::0", "a::1", "b::0"}, nil, 1, []string{"a::0"}, ""},
		{[]string{"a::1", "b::11", "b::3", "c::0"}, nil, 1, []string{"b::3"}, ""},
		{[]string{"b::1", "b::0", "a::1", "a::0"}, nil, 2, []string{"a::0", "b::0"}, ""},
		{[]string{"b::0", "b::1", "a::2"}, []string{"b::1"}, 2, []string{"b::1", "a::2"}, ""},
		{[]string{"a::0", "a::1"}, nil, 2, nil, "cannot choose 2 shared GPUs for one container: 1 have a free replica"},
		{[]string{"a::0", "a::1"}, []string{"a::0", "a::1"}, 2, nil, "twice to one container"},
		{[]string{"a::0", "b::0"}, []string{"a::0", "b::0"}, 1, nil, "cannot choose 1 shared GPUs"},
		{[]string{"a::0"}, []string{"x::0"}, 1, nil, "no such GPU"},
	} {
		r, err := p.prefer(&v1beta1.PreferredAllocationRequest{ContainerRequests: []*v1beta1.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: c.free, MustIncludeDeviceIDs: c.must, AllocationSize: int32(c.n)}}})
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, r.ContainerResponses[0].DeviceIDs)
	}
	_, _, of := sharing(t)
	_, err := of["amd.com/gpu.shared"].allocate(gpu0+"::0", gpu0+"::1")
	require.ErrorContains(t, err, "cannot give GPU 0 ("+gpu0+") twice to one container")
}

func TestUnknownEntriesOfSharedGPUsAreReported(t *testing.T) {
	p, k, _ := started(t, hosttest.ManyGPUs(t, 2), shares(2, "7,"+gpu1))
	k.start()
	turn(t, p)
	require.Contains(t, p.Trouble(), `cannot share a GPU of --shared-gpus: "7"`)
	require.Equal(t, []int{0, 2}, []int{p.seen.devices[0].replicas, p.seen.devices[1].replicas})
}

// Names come from the kubelet's files and from a folder.
func FuzzReplicas(f *testing.F) {
	for _, id := range []string{gpu0 + "::0", gpu0, "::", gpu0 + "::-1", gpu0 + "::01", gpu0 + "::1::1", "x::1"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		m := machine{devices: []device{{Slot: gpu.Slot{PCI: gpu0}}}, leases: lease.Leases{GPUs: []string{gpu0}}}
		m.addReplicas([]string{id, id})
		require.LessOrEqual(t, len(m.replicas.GPUs), 1)
		for _, name := range m.replicas.GPUs {
			require.Equal(t, name, filepath.Base(name))
			require.Equal(t, []int{0, 0}, m.owners())
		}
	})
}

func TestPluginThatStartsAgainKnowsWhoSharesAGPU(t *testing.T) {
	p, k, of := sharing(t)
	_, err := of["amd.com/gpu.shared"].allocate(gpu0 + "::2")
	require.NoError(t, err)
	k.pods = []*podresources.PodResources{pod("ci", "a", "main", "amd.com/gpu.shared", gpu0+"::2")}
	turn(t, p)
	p.close()
	now := newPlugin(p.options, p.log)
	t.Cleanup(now.close)
	now.replicas = 2 // fewer than the pod's
	turn(t, now)
	require.Equal(t, []string{lease.SharingPods, ""}, holders(t, now))
	k.pods = nil
	turn(t, now)
	require.Equal(t, []string{"", ""}, holders(t, now))
}

// The DRA driver, which takes the plugin's place, ends the leases of pods.
func TestSharedGPUIsReleasedAfterItsLastPodWithoutThePlugin(t *testing.T) {
	p, k, of := sharing(t)
	for _, id := range []string{gpu0 + "::0", gpu0 + "::1"} {
		_, err := of["amd.com/gpu.shared"].allocate(id)
		require.NoError(t, err)
	}
	k.pods = []*podresources.PodResources{pod("ci", "b", "main", "amd.com/gpu.shared", gpu0+"::1")}
	for _, want := range [][]int{nil, {0}} {
		n, err := LookAtNode(p.root, p.config, p.now, Node{})
		require.NoError(t, err)
		ended, err := n.EndedPods(t.Context(), k.dir)
		require.NoError(t, err)
		require.Equal(t, want, ended)
		k.pods = nil
	}
}
