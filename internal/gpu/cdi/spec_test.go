package cdi

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func device(path string, major, minor uint32) host.Node {
	return host.Node{Path: path, Major: major, Minor: minor, Mode: 0o660, GID: 992}
}

func card(n int) gpu.GPU {
	c := device(fmt.Sprintf("/dev/dri/card%d", n), 226, uint32(n))
	return gpu.GPU{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: fmt.Sprintf("0000:%02x:00.0", 3+n), UniqueID: fmt.Sprintf("%016x", uint64(0xa1b2c3d4e5f60000)+uint64(n))}, Card: &c, Render: device(fmt.Sprintf("/dev/dri/renderD%d", 128+n), 226, uint32(128+n))}
}

func kfd() gpu.KFD { return gpu.KFD{State: gpu.KFDPresent, Node: device("/dev/kfd", 235, 0)} }

// install applies the resource on a fresh machine and reads the file back.
func install(t *testing.T, r plan.Resource) (host.Host, []byte) {
	t.Helper()
	h := host.Host{Root: hosttest.Root(t), Runner: hosttest.NewRunner(t), Clock: hosttest.Clock{T: hosttest.Now}}
	apply(t, h, r)
	data, err := h.ReadFile(Path)
	require.NoError(t, err)
	return h, data
}

func apply(t *testing.T, h host.Host, r plan.Resource) plan.Plan {
	t.Helper()
	p, err := r.Diff(context.Background(), h)
	require.NoError(t, err)
	_, err = p.Apply(context.Background(), nil)
	require.NoError(t, err)
	return p
}

func TestSpecOfTwoGPUs(t *testing.T) {
	second := card(1)
	second.Card, second.UniqueID = nil, "" // an APU of which only the render node was passed through
	r, left, err := Resource([]gpu.GPU{card(0), second}, kfd())
	require.NoError(t, err)
	require.Empty(t, left)
	h, data := install(t, r)
	hosttest.Golden(t, "testdata/two.golden.json", string(data))
	require.Empty(t, apply(t, h, r), "a second run plans nothing")

	spec, err := cdilib.ReadSpec(h.Path(Path), 0)
	require.NoError(t, err)
	require.Equal(t, "0.5.0", spec.Version, "Podman 4.3 reads no later one")
}

func TestInjectedDevicesAreTheNodes(t *testing.T) {
	r, _, err := Resource([]gpu.GPU{card(0), card(1), card(2)}, kfd())
	require.NoError(t, err)
	h, _ := install(t, r)
	cache, err := cdilib.NewCache(cdilib.WithAutoRefresh(false), cdilib.WithSpecDirs(filepath.Dir(h.Path(Path))))
	require.NoError(t, err)
	require.Empty(t, cache.GetErrors())
	for _, c := range []struct {
		ask  []string
		want []string
	}{
		{[]string{"0"}, []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card0"}},
		{[]string{"1", "2"}, []string{"/dev/kfd", "/dev/dri/renderD129", "/dev/dri/card1", "/dev/dri/renderD130", "/dev/dri/card2"}},
		{[]string{"GPU-a1b2c3d4e5f60002"}, []string{"/dev/kfd", "/dev/dri/renderD130", "/dev/dri/card2"}},
		{[]string{"0000:04:00.0"}, []string{"/dev/kfd", "/dev/dri/renderD129", "/dev/dri/card1"}},
		{[]string{"all"}, []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card0", "/dev/dri/renderD129",
			"/dev/dri/card1", "/dev/dri/renderD130", "/dev/dri/card2"}},
		{[]string{"all", "0"}, []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card0", "/dev/dri/renderD129",
			"/dev/dri/card1", "/dev/dri/renderD130", "/dev/dri/card2"}},
	} {
		var names []string
		for _, a := range c.ask {
			names = append(names, Kind+"="+a)
		}
		got := &oci.Spec{Process: &oci.Process{User: oci.User{UID: 1000, GID: 1000}}}
		_, err := cache.InjectDevices(got, names...)
		require.NoError(t, err, c.ask)
		var paths []string
		for _, d := range got.Linux.Devices {
			paths = append(paths, d.Path)
			require.EqualValues(t, 0o666, *d.FileMode, "each user of an image may open it")
		}
		require.ElementsMatch(t, c.want, paths, c.ask)
		for _, rule := range got.Linux.Resources.Devices {
			require.Equal(t, "rw", rule.Access)
			require.NotZero(t, *rule.Major)
		}
	}
	_, err = cache.InjectDevices(&oci.Spec{}, Kind+"=3")
	require.Error(t, err)
}

// V5, T4: a node that could not be looked at used to become device 0:0.
func TestNodeWithoutNumberIsNeverWritten(t *testing.T) {
	noRender, noCard, nothing := card(1), card(2), card(3)
	noRender.Render.Major, noRender.Render.Minor = 0, 0
	noCard.Card.Major, noCard.Card.Minor = 0, 0
	nothing.Render = host.Node{}
	r, left, err := Resource([]gpu.GPU{card(0), noRender, noCard, nothing, card(4)}, gpu.KFD{State: gpu.KFDAbsent})
	require.NoError(t, err)
	require.Equal(t, []string{
		"0000:04:00.0: /dev/dri/renderD129: its device number is not known",
		"0000:05:00.0: /dev/dri/card2: its device number is not known",
		"0000:06:00.0: it has no render node",
		"/dev/kfd: no /dev/kfd",
	}, left)
	_, data := install(t, r)
	require.NotContains(t, string(data), "kfd")
	var spec struct {
		Devices []struct {
			Name           string
			ContainerEdits struct {
				DeviceNodes []struct{ Major, Minor int64 }
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &spec))
	var names []string
	for _, d := range spec.Devices {
		names = append(names, d.Name)
		for _, n := range d.ContainerEdits.DeviceNodes {
			require.Equal(t, int64(226), n.Major)
		}
	}
	require.Equal(t, []string{"0", "4", "GPU-a1b2c3d4e5f60000", "GPU-a1b2c3d4e5f60004", "0000:03:00.0", "0000:07:00.0", "all"}, names,
		"a number never moves on to another GPU")
}

func TestUnusableKFDIsReportedWithItsReason(t *testing.T) {
	for name, k := range map[string]gpu.KFD{
		"of another driver": {State: gpu.KFDWrongMajor, Node: device("/dev/kfd", 200, 0), WantMajor: 235},
		"without number":    {State: gpu.KFDPresent, Node: host.Node{Path: "/dev/kfd", Any: true}},
	} {
		spec, left, err := Spec([]gpu.GPU{card(0)}, k)
		require.NoError(t, err, name)
		require.Empty(t, spec.ContainerEdits.DeviceNodes, name)
		require.Len(t, left, 1, name)
		require.Contains(t, left[0], "/dev/kfd", name)
	}
}

func TestNameThatTwoGPUsClaimNamesNeither(t *testing.T) {
	a, b, c, d, e := card(0), card(1), card(2), card(3), card(4)
	b.UniqueID, b.PCI, b.Partition = a.UniqueID, a.PCI, 1
	d.PCI = e.PCI // which of the two a container would get no one could report
	d.UniqueID, e.UniqueID = "", ""
	spec, left, err := Spec([]gpu.GPU{a, b, c, d, e}, kfd())
	require.NoError(t, err)
	require.Empty(t, left)
	var names []string
	for _, d := range spec.Devices {
		names = append(names, d.Name)
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4", "GPU-" + c.UniqueID, "0000:03:00.0", "0000:03:00.0-1", "0000:05:00.0", "all"}, names)
}

// AMD's tool names GPUs by index alone.
func TestAbsentKindOfNameIsNotADifference(t *testing.T) {
	machine, _, err := Spec([]gpu.GPU{card(0), card(1)}, kfd())
	require.NoError(t, err)
	for without, want := range map[string][]string{
		"0000:03:00.0 0000:04:00.0":                                           nil,
		"GPU-a1b2c3d4e5f60000 GPU-a1b2c3d4e5f60001":                           nil,
		"GPU-a1b2c3d4e5f60000 GPU-a1b2c3d4e5f60001 0000:03:00.0 0000:04:00.0": nil,
		"0000:04:00.0":                {"amd.com/gpu=0000:04:00.0 is missing"},
		"GPU-a1b2c3d4e5f60000":        {"amd.com/gpu=GPU-a1b2c3d4e5f60000 is missing"},
		"0 0000:03:00.0 0000:04:00.0": {"amd.com/gpu=0 is missing"},
	} {
		file := *machine
		file.Devices = slices.DeleteFunc(slices.Clone(machine.Devices), func(d specs.Device) bool {
			return slices.Contains(strings.Fields(without), d.Name)
		})
		require.Equal(t, want, Differences(&file, machine), without)
	}
}

func TestInvalidCDINameIsAnError(t *testing.T) {
	g := card(0)
	g.UniqueID = "a b"
	_, _, err := Resource([]gpu.GPU{g}, kfd())
	require.ErrorContains(t, err, "cannot describe GPUs in /etc/cdi/amd.json")
}

// D46: the description was made once, and stale after any change of GPUs.
func TestFileFollowsTheGPUs(t *testing.T) {
	r, _, err := Resource([]gpu.GPU{card(0)}, kfd())
	require.NoError(t, err)
	h, one := install(t, r)
	hosttest.Put(t, h.Root, "/etc/cdi/nvidia.yaml", "someone else's\n")

	r, _, err = Resource([]gpu.GPU{card(0), card(1)}, kfd())
	require.NoError(t, err)
	require.Len(t, apply(t, h, r), 1)
	two, err := h.ReadFile(Path)
	require.NoError(t, err)
	require.NotEqual(t, one, two)

	renumbered := kfd()
	renumbered.Node.Major = 510
	r, _, err = Resource([]gpu.GPU{card(0), card(1)}, renumbered)
	require.NoError(t, err)
	require.Len(t, apply(t, h, r), 1, "the major of kfd changes with a reboot")

	r, left, err := Resource(nil, kfd())
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, apply(t, h, r), 1)
	require.False(t, h.Exists(Path))
	require.True(t, h.Exists("/etc/cdi/nvidia.yaml"), "other files below /etc/cdi are not ours")
	require.Empty(t, apply(t, h, r))
	_, err = os.Stat(h.Path("/etc/cdi"))
	require.NoError(t, err)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"cdiVersion":"0.6.0","kind":"amd.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/kfd","fileMode":432,"gid":44}]}}]}`))
	f.Add([]byte("cdiVersion: 0.6.0\nkind: amd.com/gpu\ndevices:\n- name: all\n  containerEdits: {}\n"))
	f.Add([]byte("null"))
	machine, _, err := Spec([]gpu.GPU{card(0), card(1)}, kfd())
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data)
		if err != nil {
			return
		}
		Differences(s, nil)
		same := len(Differences(s, machine)) == 0
		if same && len(s.Devices) == 0 {
			t.Fatalf("%q is no description of two GPUs", data)
		}
	})
}

// The integrated GPU has its names, and only who names it gets it.
func TestAllLeavesOutAnIntegratedGPUBesideACard(t *testing.T) {
	beside := card(1)
	beside.BesideCard = true
	spec, left, err := Spec([]gpu.GPU{card(0), beside}, kfd())
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, List(spec), 2)
	require.True(t, InAll(spec, "/dev/dri/renderD128"))
	require.False(t, InAll(spec, "/dev/dri/renderD129"))

	named, err := Select(spec, []string{"0", "1"}, false)
	require.NoError(t, err)
	require.True(t, InAll(named, "/dev/dri/renderD129"))
	require.NoError(t, validate(named))

	alone, _, err := Spec([]gpu.GPU{beside}, kfd()) // its card fails
	require.NoError(t, err)
	require.Len(t, List(alone), 1)
	require.False(t, InAll(alone, "/dev/dri/renderD129"))
}
