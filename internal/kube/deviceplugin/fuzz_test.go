package deviceplugin

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func offeredOf(t *testing.T, unit *oci.Config) (ids []string) {
	t.Helper()
	inv, err := gpu.Discover(hosttest.ManyGPUs(t, 3))
	require.NoError(t, err)
	for _, g := range offered(inv.GPUsOf(gpu.AMD), unit) {
		ids = append(ids, g.Address())
	}
	return ids
}

// The kubelet's notes are no part of its API: whatever is in them is read or refused.
func FuzzNotes(f *testing.F) {
	f.Add([]byte(`{"Data":{"PodDeviceEntries":[{"PodUID":"8d1e","ContainerName":"main","ResourceName":"amd.com/gpu","DeviceIDs":{"-1":["0000:04:00.0"]},"AllocResp":"GhQKCC9kZXYva2ZkEggvZGV2L2tmZA=="}],"RegisteredDevices":{"amd.com/gpu":["0000:04:00.0"]}},"Checksum":1}`))
	f.Add([]byte(`{"Data":{"PodDeviceEntries":null},"Checksum":1}`))
	f.Add([]byte(`{"Data":null}`))
	f.Add([]byte(`{"PodDeviceEntries":[{"DeviceIDs":["a"]}]}`))
	m := machine{devices: []device{{Slot: gpu.Slot{PCI: gpu0}}, {Slot: gpu.Slot{PCI: gpu1}}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		notes, err := decodeNotes(data)
		require.True(t, err != nil || notes != nil)
		for _, n := range notes {
			_, _ = n.paths()
			for _, i := range m.indexesOf(n.ResourceName, n.ids()) {
				require.Less(t, i, len(m.devices))
			}
		}
	})
}

// The kubelet's answer lists the pods of all plugins, with names that their owners choose.
func FuzzPodResources(f *testing.F) {
	answer := &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{Name: "p", Namespace: "n",
		Containers: []*podresources.ContainerResources{{Name: "c", Devices: []*podresources.ContainerDevices{
			{ResourceName: "amd.com/gpu", DeviceIds: []string{gpu0, gpu0, "x"}}, {ResourceName: "other/gpu", DeviceIds: []string{gpu1}}, nil}}, nil}}, nil}}
	data, err := proto.Marshal(answer)
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte{})
	m := machine{devices: []device{{Slot: gpu.Slot{PCI: gpu0}}, {Slot: gpu.Slot{PCI: gpu1}}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r podresources.ListPodResourcesResponse
		if proto.Unmarshal(data, &r) != nil {
			return
		}
		for i, name := range podsOf(&r, m) {
			require.Less(t, i, len(m.devices))
			require.GreaterOrEqual(t, strings.Count(name, "/"), 2)
		}
	})
}
