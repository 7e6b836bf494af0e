package oci

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// needsRoot skips the test of a wrapper that runs as root, because its files must be root's.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the files of the test belong to another user")
	}
}

// exclusiveEngine is a testbed with GPUs that other engines lease, too.
func exclusiveEngine(t *testing.T, change ...func(*Config)) *testbed {
	t.Helper()
	needsRoot(t)
	b := exclusive(t, append([]func(*Config){func(c *Config) { c.Containers = Requested }}, change...)...)
	b.foreign = true
	return b
}

// container is one of another engine's.
func (b *testbed) container(t *testing.T, id string, change ...func(map[string]any)) error {
	t.Helper()
	b.bundle(t, "check", append([]func(map[string]any){plain()}, change...)...)
	return b.call("create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), id)
}

// put is what an engine makes of --device: its own nodes, by any name.
func put(nodes ...[2]uint32) func(map[string]any) {
	return func(spec map[string]any) {
		var list []any
		for _, n := range nodes {
			list = append(list, map[string]any{"path": "/dev/any", "type": "c", "major": n[0], "minor": n[1]})
		}
		spec["linux"].(map[string]any)["devices"] = list
	}
}

func TestContainerOfAnEngineLeasesItsRequest(t *testing.T) {
	b := exclusiveEngine(t)
	require.NoError(t, b.container(t, "c0"), "who asks for none")
	require.NoDirExists(t, b.path("leases"))
	require.NoError(t, b.container(t, "c1", plain("AMD_VISIBLE_DEVICES=0")))
	require.Equal(t, []string{"c1", ""}, b.held(t))
	k, err := b.wrapper.markers(b.path("state")).load("c1")
	require.NoError(t, err)
	require.True(t, k.lease.ownProcess)
	require.NoError(t, b.container(t, "c2", plain("AMD_VISIBLE_DEVICES=all")),
		"as with tasks: all of them is no wish for all")
	require.Equal(t, []string{"c1", "c2"}, b.held(t))
	require.EqualError(t, b.container(t, "c3", plain("AMD_VISIBLE_DEVICES=0")),
		"cannot lease 1 GPU: 0 of the 1 that the container names are free; "+
			"0 (GPU-1a2b, 0000:03:00.0) is held by container c1 of another engine since 03:04:05 UTC (0s); start "+
			"the container again later [container c3]")
}

// An image can call its program as it likes: no task of Concourse's comes this way.
func TestImageCantPassForConcourse(t *testing.T) {
	b := exclusiveEngine(t)
	require.NoError(t, b.task(t, "c1", "AMD_VISIBLE_DEVICES=0"))
	k, err := b.wrapper.markers(b.path("state")).load("c1")
	require.NoError(t, err)
	require.True(t, k.lease.ownProcess)
}

// What --device and CDI of the engine give is leased as it is, and nothing is added.
func TestGPUsThatAnEngineGivesAreLeased(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(map[string]any)
		held   []string
	}{
		"one": {[]func(map[string]any){put([2]uint32{226, 129})}, []string{"", "c1"}},
		"both, as --privileged": {[]func(map[string]any){put([2]uint32{1, 3}, [2]uint32{226, 0},
			[2]uint32{226, 128}, [2]uint32{226, 129}, [2]uint32{226, 129})}, []string{"c1", "c1"}},
		"whatever the image's variable": {[]func(map[string]any){plain("AMD_VISIBLE_DEVICES=0"),
			put([2]uint32{226, 129})}, []string{"", "c1"}},
		"none of ours": {[]func(map[string]any){put([2]uint32{226, 130}, [2]uint32{235, 0})},
			[]string{"", ""}},
		"a disk": {[]func(map[string]any){put([2]uint32{226, 128}), func(s map[string]any) {
			s["linux"].(map[string]any)["devices"].([]any)[0].(map[string]any)["type"] = "b"
		}}, []string{"", ""}},
	} {
		for _, containers := range []Containers{Requested, Tasks} {
			t.Run(name+", "+string(containers), func(t *testing.T) {
				b := exclusiveEngine(t, func(c *Config) { c.Containers = containers })
				require.NoError(t, b.container(t, "c1", c.change...))
				require.Equal(t, c.held, b.held(t))
				require.NotContains(t, b.text(t), "/dev/kfd")
			})
		}
	}
	b := exclusiveEngine(t)
	require.NoError(t, b.container(t, "c1", put([2]uint32{226, 129})))
	require.EqualError(t, b.container(t, "c2", put([2]uint32{226, 128}, [2]uint32{226, 129})),
		"cannot leave the container the GPUs that its engine has put into it (--device, --privileged): "+
			"cannot lease 2 GPUs: 1 of the 2 that the container names is free; GPU-3c4d (/dev/dri/renderD129) is "+
			"held by container c1 of another engine since 03:04:05 UTC (0s); "+
			"start the container again later, or request fewer [container c2]")
	require.Equal(t, []string{"", "c1"}, b.held(t))
	b.foreign = false
	b.bundle(t, "check", put([2]uint32{226, 129}))
	require.NoError(t, b.create(), "Concourse puts none")
}

// What the kubelet's plugin has given to a pod, no one else gets.
func TestContainerUsesTheGPUOfItsPod(t *testing.T) {
	b := exclusiveEngine(t)
	l := b.wrapper.leases(&settings{Config: Config{Leases: &Leases{Dir: b.path("leases")}}},
		[]string{"GPU-1a2b", "GPU-3c4d"})
	for i, c := range []struct{ keeper, namespace, pod, refusal string }{
		{"team-a/train-0/main", "io.kubernetes.cri.sandbox-namespace io.kubernetes.cri.sandbox-name " +
			"io.kubernetes.cri.container-name", "train-0", ""},
		{lease.StartingPod, "io.kubernetes.pod.namespace io.kubernetes.pod.name io.kubernetes.container.name",
			"train-0", ""},
		{"team-a/train-0/main", "io.kubernetes.pod.namespace io.kubernetes.pod.name " +
			"io.kubernetes.container.name", "train-1", "is held by pod team-a/train-0, container main since "},
		{"team-a/train-0/main", "a b c", "train-0", "is held by pod team-a/train-0, container main since "},
	} {
		require.NoError(t, l.HoldForPod(c.keeper, []int{0}, nil))
		names := strings.Fields(c.namespace)
		err := b.container(t, "c"+strconv.Itoa(i), put([2]uint32{226, 128}),
			annotated(map[string]any{names[0]: "team-a", names[1]: c.pod, names[2]: "main"}))
		if c.refusal == "" {
			require.NoError(t, err)
			require.Equal(t, []string{c.keeper, ""}, b.held(t))
			continue
		}
		require.ErrorContains(t, err, c.refusal)
	}
	require.NoError(t, l.ReleasePod([]int{0}))
	require.NoError(t, l.HoldForClaim(lease.Claim{Namespace: "team-a", Name: "train", UID: "1"}, []int{0}, nil))
	in := func(namespace string) func(map[string]any) {
		return annotated(map[string]any{"io.kubernetes.cri.sandbox-namespace": namespace,
			"io.kubernetes.cri.sandbox-name": "train-0", "io.kubernetes.cri.container-name": "main"})
	}
	require.NoError(t, b.container(t, "its", put([2]uint32{226, 128}), in("team-a")))
	require.NoError(t, l.HoldForSharingClaims(1, nil))
	require.NoError(t, b.container(t, "shares", put([2]uint32{226, 129}), in("team-b")))
	require.ErrorContains(t, b.container(t, "no-pod", put([2]uint32{226, 129})), "is held by claims that share it since ")
	require.ErrorContains(t, b.container(t, "other", put([2]uint32{226, 128}), in("team-b")),
		"is held by claim team-a/train since ")
}

func TestGPUOfAnEngineMayBeQuarantined(t *testing.T) {
	b := exclusiveEngine(t)
	var c Config
	require.NoError(t, json.Unmarshal([]byte(file(t, b.path("wrapper.json"))), &c))
	c.Quarantine = b.path("admission.json")
	data, err := json.Marshal(c)
	require.NoError(t, err)
	b.put(t, "wrapper.json", string(data))
	b.quarantine(t, "GPU-1a2b")
	require.ErrorContains(t, b.container(t, "c1", put([2]uint32{226, 128})),
		"0 of the 1 that the container names can be given; ")
	require.NoError(t, b.container(t, "c1", put([2]uint32{226, 129})))
}

// Tasks wait, as Concourse would send the next one. An engine's caller must learn it at once.
func TestContainerOfAnEngineDoesNotWaitForAQuarantinedGPU(t *testing.T) {
	b := exclusiveEngine(t, func(c *Config) { c.Quarantine = strings.TrimSuffix(c.State, "state") + "admission.json" })
	b.quarantine(t, "GPU-3c4d")
	b.sleep = func(time.Duration) { t.Fatal("it waits") }
	require.NoError(t, b.container(t, "c1", plain("GPU_COUNT=1")))
	for _, request := range []func(map[string]any){plain("GPU_COUNT=1"), plain("GPU_COUNT=2"),
		put([2]uint32{226, 128}, [2]uint32{226, 129})} {
		require.ErrorContains(t, b.container(t, "c2", request), "GPU-3c4d")
	}
	waited := time.Duration(0)
	b.sleep, b.foreign = func(d time.Duration) { waited += d }, false
	require.ErrorContains(t, b.task(t, "c3"), "GPU-3c4d")
	require.Equal(t, quarantineTime, waited, "a task does")
}

func TestContainersWithoutAVisibleEndAreRefused(t *testing.T) {
	for want, change := range map[string]func(map[string]any){
		"run it without --pid (Kubernetes: hostPID, " +
			"shareProcessNamespace)": func(s map[string]any) { s["linux"].(map[string]any)["namespaces"] = []any{} },
	} {
		b := exclusiveEngine(t)
		require.ErrorContains(t, b.container(t, "c1", plain("AMD_VISIBLE_DEVICES=0"), change), want)
		require.NoDirExists(t, b.path("leases"))
	}
	b := exclusiveEngine(t)
	b.bundle(t, "check", plain("AMD_VISIBLE_DEVICES=0"))
	require.ErrorContains(t, b.create(), "runc is called without --pid-file, so its end cannot be seen; "+
		"run it with an engine that gives one")
	b.uidMap = func() ([]byte, error) { return []byte("0 1000 1\n"), nil }
	b.euid = 0
	b.engine = true
	_, _, err := b.newCaller(nil, nil, true)
	require.ErrorContains(t, err, "leases are root's to take; run it with root")
}

// How one is let in needs a container: tests/container.
func TestStartAndExecEnterTheLeaseOfTheirContainer(t *testing.T) {
	b := exclusiveEngine(t)
	require.NoError(t, b.container(t, "c1", plain("AMD_VISIBLE_DEVICES=0")))
	_, err := lease.Leases{Dir: b.path("leases"), GPUs: []string{"GPU-1a2b"}, Euid: b.euid}.Release(0, true)
	require.NoError(t, err)
	require.NoError(t, b.container(t, "c2", plain("AMD_VISIBLE_DEVICES=0")))
	for _, call := range [][]string{{"start", "c1"}, {"exec", "c1", "sh"}} {
		require.ErrorContains(t, b.call(call...), "cannot use 1 GPU in container c1: its lease was released, "+
			"and since then GPU-1a2b is held by container c2 of another engine")
		require.Nil(t, b.argv)
	}
	require.NoError(t, b.call("start", "other"))
	b.foreign = false
	require.NoError(t, b.call("start", "c1"), "Concourse's is not looked at")
}
