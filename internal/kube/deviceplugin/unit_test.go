package deviceplugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The GPUs of hosttest.ManyGPUs.
const (
	gpu0, gpu1, gpu2 = "0000:04:00.0", "0000:0b:00.0", "0000:12:00.0"
	uid0             = "amd.com/gpu=GPU-9c31f07ad2480000"
)

// exclusive makes the machine a unit that leases its first n GPUs.
func exclusive(t *testing.T, r host.Root, n int) {
	t.Helper()
	hosttest.Put(t, r, "/proc/sys/kernel/random/boot_id", "boot-1\n")
	require.NoError(t, r.MkdirAll("/run", 0o755))
	config := oci.Config{Runtime: "/runc", Leases: &oci.Leases{}, Quarantine: "/admission.json"}
	for i := range n {
		config.GPUs = append(config.GPUs, oci.GPU{Name: []string{gpu0, gpu1, gpu2}[i]})
	}
	data, err := json.Marshal(config)
	require.NoError(t, err)
	hosttest.Put(t, r, oci.DefaultConfig, string(data))
}

// taskTakes has a task's call lease the unit's GPU with this index; end ends that.
func taskTakes(t *testing.T, p *plugin, gpu int) (end func()) {
	t.Helper()
	stat := p.root.Path("/proc/4711/stat")
	hosttest.Put(t, p.root, "/proc/4711/stat", fmt.Sprintf("4711 (runc) S %s77 1 2 3\n", strings.Repeat("0 ", 18)))
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.seen.leases.Take(lease.Call{Container: "task-1", Bundle: "/b", PidFile: "/b/pid", Cgroup: "task-1", PID: 4711}, lease.Want{Of: []int{gpu}, Count: 1})
	require.NoError(t, err)
	return func() { require.NoError(t, os.Remove(stat)) }
}

// keep writes that tasks do not get a GPU.
func keep(t *testing.T, r host.Root, name, reason string) {
	t.Helper()
	f := admission.File{GPUs: []admission.GPU{{Name: name, Reason: reason}}}
	hosttest.Put(t, r, "/admission.json", string(admission.Encode(f)))
}

// quarantineGPU writes that a GPU is quarantined by hand.
func quarantineGPU(t *testing.T, r host.Root, name string) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, quarantine.RecordFile.Write(r, quarantine.Record{GPUs: []quarantine.GPU{{Ref: quarantine.Ref{Name: name}, State: quarantine.Quarantined, QuarantinedBy: quarantine.ByHand, Since: at, QuarantinedSince: &at, Reason: "a fan"}}}))
}

func pod(namespace, name, container, resource string, ids ...string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: namespace, Name: name, Containers: []*podresources.ContainerResources{
		{Name: container, Devices: []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}}}}
}

func (w *watched) allocate(ids ...string) (*v1beta1.AllocateResponse, error) {
	return w.Allocate(context.Background(), &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: ids}}})
}

func (w *watched) begin(ids ...string) error {
	_, err := w.PreStartContainer(context.Background(), &v1beta1.PreStartContainerRequest{DevicesIds: ids})
	return err
}

// holders are who has the GPUs, "" if no one does.
func holders(t *testing.T, p *plugin) (names []string) {
	t.Helper()
	states, _, err := p.seen.leases.Read()
	require.NoError(t, err)
	for _, s := range states {
		if !s.Held {
			s.Container = ""
		}
		names = append(names, s.Container)
	}
	return names
}

// unit is a plugin on a unit with 2 leased GPUs that the kubelet watches.
func unit(t *testing.T) (*plugin, *kubelet, *watched, fmt.Stringer) {
	r := hosttest.ManyGPUs(t, 3)
	exclusive(t, r, 2)
	p, k, log := started(t, r, nil)
	k.start()
	turn(t, p)
	require.Empty(t, p.Trouble(), log)
	w := <-k.plugins
	require.Equal(t, map[string]string{gpu0: v1beta1.Healthy, gpu1: v1beta1.Healthy}, <-w.lists)
	return p, k, w, log
}
