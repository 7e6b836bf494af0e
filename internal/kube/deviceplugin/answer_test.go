package deviceplugin

import (
	"encoding/json"
	"testing"

	runtimespec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// describe writes the machine's CDI description.
func describe(t *testing.T, r host.Root) {
	t.Helper()
	m, err := cdi.OfMachine(r)
	require.NoError(t, err)
	data, err := json.Marshal(m.Spec)
	require.NoError(t, err)
	hosttest.Put(t, r, cdi.Path, string(data))
}

func TestAnswer(t *testing.T) {
	two := []device{
		{Slot: gpu.Slot{PCI: "a"}, cdi: "amd.com/gpu=0", nodes: []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card0"}},
		{Slot: gpu.Slot{PCI: "b", Index: 1}, nodes: []string{"/dev/kfd", "/dev/dri/renderD129"}},
	}
	for _, c := range []struct {
		how     string
		devices []device
		names   []string
		paths   []string
		err     string
	}{
		{auto, two[:1], []string{"amd.com/gpu=0"}, two[0].nodes, ""},
		{auto, two, []string{"amd.com/gpu=0"}, []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card0", "/dev/dri/renderD129"}, ""},
		{byNode, two[:1], nil, two[0].nodes, ""},
		{byCDIName, two[:1], []string{"amd.com/gpu=0"}, nil, ""},
		{byCDIName, two, nil, nil, "cannot give GPU 1 (b) to a pod by its CDI name: it is not in /etc/cdi/amd.json"},
	} {
		r, err := answer(c.how, c.devices)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		var names, paths []string
		for _, d := range r.CdiDevices {
			names = append(names, d.Name)
		}
		for _, d := range r.Devices {
			require.Equal(t, d.HostPath, d.ContainerPath)
			require.Equal(t, "rw", d.Permissions)
			paths = append(paths, d.HostPath)
		}
		require.Equal(t, c.names, names)
		require.Equal(t, c.paths, paths)
	}
}

func TestDevicesHaveNamesAndNUMANodes(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	describe(t, r)
	hosttest.Put(t, r, "/sys/bus/pci/devices/"+gpu0+"/numa_node", "1\n")
	m, err := look(r, "", nil, machine{})
	require.NoError(t, err)
	require.Equal(t, uid0, m.devices[0].cdi)
	require.Equal(t, []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/card1"}, m.devices[0].nodes)
	require.Equal(t, []*v1beta1.NUMANode{{ID: 1}}, listed(m.devices)[0].Topology.Nodes)
	require.Nil(t, listed(m.devices)[1].Topology, "not known")

	hosttest.Put(t, r, "/sys/bus/pci/devices/"+gpu0+"/drm/renderD128/dev", "226:199\n")
	hosttest.Put(t, r, "/dev/dri/renderD128", "226:199 0660 0 44\n")
	m, err = look(r, "", nil, machine{})
	require.NoError(t, err)
	require.Empty(t, m.devices[0].cdi, "the description has another node there")
}

// A runtime that knows CDI gets both, and has each node once.
func TestNodesAndNamesTogetherAreOneNodeEach(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	describe(t, r)
	registry, err := cdilib.NewCache(cdilib.WithSpecDirs(r.Path("/etc/cdi")), cdilib.WithAutoRefresh(false))
	require.NoError(t, err)
	m, err := look(r, "", nil, machine{})
	require.NoError(t, err)
	given, err := answer(auto, m.devices)
	require.NoError(t, err)
	config := &runtimespec.Spec{Linux: &runtimespec.Linux{}}
	for _, d := range given.Devices {
		config.Linux.Devices = append(config.Linux.Devices, runtimespec.LinuxDevice{Path: d.ContainerPath, Type: "c", Major: 1})
	}
	_, err = registry.InjectDevices(config, given.CdiDevices[0].Name)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, d := range config.Linux.Devices {
		require.False(t, seen[d.Path], d.Path)
		require.NotEqual(t, int64(1), d.Major, "the description's own")
		seen[d.Path] = true
	}
	require.Len(t, seen, 3)
}
