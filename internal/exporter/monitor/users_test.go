package monitor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const container = "eb2a4fe8-e932-49c4-b519-4f1da1901416"

// withTask is a monitor that looks at processes, with a task that uses the GPU of host amd.
func withTask(t *testing.T, r host.Root) *steered {
	t.Helper()
	hosttest.Put(t, r, "/proc/100/cgroup", "0::/garden/"+container+"\n")
	hosttest.Link(t, r, "/proc/100/fd/7", "/dev/dri/renderD128")
	hosttest.Put(t, r, "/proc/100/fdinfo/7", "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\npasid:\t32771\n"+
		"drm-memory-vram:\t1024 KiB\ndrm-engine-gfx:\t2500000000 ns\n")
	return newMonitor(r, All(r), Options{Usage: true, UsageInterval: 15 * time.Second, UsageContainers: 4})
}

func TestUsersComeFromTheLastScan(t *testing.T) {
	m := withTask(t, hosttest.Host(t, "amd"))
	require.Nil(t, m.Snapshot().Users, "nothing is read in a snapshot")
	m.readUsers(context.Background())
	s := m.Snapshot()
	require.Equal(t, usage.LeftOut{}, s.Users.Left)
	require.Equal(t, []usage.Row{{Container: container, Processes: 1, Memory: []usage.Amount{{Name: "vram", Value: 1 << 20}},
		Engines: []usage.Amount{{Name: "gfx", Value: 2.5}}}}, s.GPUs[0].Users)
	m.now = func() time.Time { return hosttest.Now.Add(61 * time.Second) }
	s = m.Snapshot()
	require.Nil(t, s.Users, "what is too old says nothing")
	require.Nil(t, s.GPUs[0].Users)
}

func TestReportIsNotWrittenWithoutAGPU(t *testing.T) {
	r := hosttest.Host(t, "no-gpu")
	require.NoError(t, withTask(t, r).ReportUsers(context.Background(), "/run/usage.json"))
	require.False(t, r.Exists("/run/usage.json"))
}

// Without the flag, and without a GPU, no process is looked at.
func TestProcessesAreScannedOnlyWithGPUs(t *testing.T) {
	r := hosttest.Host(t, "amd")
	m := newMonitor(r, All(r), Options{})
	require.Nil(t, m.users)
	require.Nil(t, m.Snapshot().Users)

	m = withTask(t, hosttest.Host(t, "no-gpu"))
	m.Snapshot()
	m.readUsers(context.Background())
	require.Nil(t, m.users.scanner.Last())
}

// The driver gives the number of the node, which a GPU's index need not be.
func TestUsersOfAnNVIDIAGPUAreFoundByItsNode(t *testing.T) {
	r := hosttest.Host(t, "nvidia-only")
	hosttest.Put(t, r, "/proc/100/cgroup", "0::/garden/"+container+"\n")
	hosttest.Link(t, r, "/proc/100/fd/7", "/dev/nvidia0")
	m := newMonitor(r, Of(r, gpu.NVIDIA), Options{Usage: true, UsageInterval: 15 * time.Second, UsageContainers: 4})
	m.Snapshot()
	m.readUsers(context.Background())
	require.Equal(t, []usage.Row{{Container: container, Processes: 1}}, m.Snapshot().GPUs[0].Users)
}
