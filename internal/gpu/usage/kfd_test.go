package usage

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// On a host the number of a KFD process is its number in /proc.
func TestKFDProcessIsJoinedByItsNumber(t *testing.T) {
	m := newMachine(t)
	m.process(100, task) // with the DRM client that ROCm opens
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 4096, 0))
	m.kfd(100, map[string]string{"pasid": "0", "vram_4711": "4000000", "sdma_4711": "1500000", "stats_4711/cu_occupancy": "64",
		"vram_4712": "0", "sdma_4712": "0", "stats_4712/evicted_ms": "0", "queues/0/gpuid": "4711"})
	m.process(200, system) // without one
	m.kfd(200, map[string]string{"vram_4711": "8192", "vram_99": "1"})
	m.kfd(300, map[string]string{"vram_4711": "1"}) // ended
	m.kfd(400, map[string]string{"vram_99": "1"})   // a GPU that is not ours
	s := m.scanner(Options{})
	require.Equal(t, `"": 1 kfd=8192
"`+handle+`": 1 vram=4.194304e+06 gtt=2.097152e+06 cpu=0 kfd=4e+06 kfd_sdma=1.5s units=64
`, scan(t, s, first))
	require.Empty(t, rows(s.Last(), second), "a place on a GPU is no use of it")
	require.Zero(t, s.Last().Left)
}

// In a container the numbers are the host's, and the entries are of all its containers: the
// memory space joins what is here, and the rest is not shown, but counted.
func TestInANamespaceKFDProcessIsJoinedByItsMemorySpace(t *testing.T) {
	for name, pasid := range map[string]string{"one for all GPUs": "pasid", "one for each": "pasid_4711"} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.link("/proc/1/ns/pid", "pid:[4026532501]")
			m.process(100, task)
			m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 4096, 0)) // pasid 32007
			m.process(70100, system)                                              // another one with the host's number
			m.kfd(70100, map[string]string{pasid: "32007", "vram_4711": "4000000"})
			m.kfd(70200, map[string]string{pasid: "32999", "vram_4711": "5000000"})
			m.kfd(100, map[string]string{"pasid": "0", "vram_4711": "6000000"})
			s := m.scanner(Options{})
			require.Equal(t, `"`+handle+`": 1 vram=4.194304e+06 gtt=2.097152e+06 cpu=0 kfd=4e+06
`, scan(t, s, first))
			require.Equal(t, LeftOut{Namespace: 2}, s.Last().Left)
			require.Equal(t, []Process{{PID: 100, Host: true, Memory: 6e6}, {PID: 70200, Host: true, Memory: 5e6},
				{PID: 100, Container: handle, Memory: 4096 << 10}}, s.Last().Find(first).Processes)
		})
	}
}

// A process may have several contexts of KFD, each with its own counts (Linux 7.0): its
// folder has the counts of the first one.
func TestKFDContextsOfAProcessAreSummedUp(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 4096, 0))
	m.kfd(100, map[string]string{"pasid": "0", "vram_4711": "1900000000", "sdma_4711": "1000000", "stats_4711/cu_occupancy": "228",
		"context_0/vram_4711": "500000000", "context_0/sdma_4711": "500000", "context_0/stats_4711/cu_occupancy": "10",
		"context_7/vram_4711": "200000000", "context_7/vram_4712": "300", "context_x/vram_4711": "9", "vram_4712": "0"})
	s := m.scanner(Options{})
	require.Equal(t, `"`+handle+`": 1 vram=4.194304e+06 gtt=2.097152e+06 cpu=0 kfd=2.6e+09 kfd_sdma=1.5s units=238
`, scan(t, s, first))
	require.Equal(t, `"`+handle+`": 1 kfd=300
`, rows(s.Last(), second), "a GPU that only a context uses")
}

// In a container a process may be known by the memory space of a context alone.
func TestKFDContextIsJoinedByItsMemorySpace(t *testing.T) {
	m := newMachine(t)
	m.link("/proc/1/ns/pid", "pid:[4026532501]")
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 4096, 0)) // pasid 32007
	m.kfd(70100, map[string]string{"pasid": "0", "vram_4711": "1000", "context_0/pasid_4711": "32007", "context_0/vram_4711": "2000"})
	s := m.scanner(Options{})
	require.Equal(t, `"`+handle+`": 1 vram=4.194304e+06 gtt=2.097152e+06 cpu=0 kfd=3000
`, scan(t, s, first))
}

// KFD reads the time of copies from the memory of the process itself, which may not answer:
// its numbers are missing then, but DRM's are not.
func TestHangingKFDLosesOnlyItsOwnNumbers(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 4096, 0))
	m.kfd(100, map[string]string{"vram_4711": "4000000"})
	pipe := m.root.Path(kfdProcs + "/100/sdma_4711")
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	s := m.scanner(Options{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for !s.readings.Outstanding("kfd " + first.Address()) {
			runtime.Gosched()
		}
		cancel()
	}()
	s.Scan(ctx, []gpu.Slot{first})
	s.Scan(context.Background(), []gpu.Slot{first})
	require.Equal(t, `"`+handle+`": 1 vram=4.194304e+06 gtt=2.097152e+06 cpu=0
`, rows(s.Last(), first))
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

func TestInvalidNumbersOfKFDAreLeftOut(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 4096, 0))
	m.kfd(100, map[string]string{"vram_4711": "x", "sdma_4711": "-5", "stats_4711/cu_occupancy": ""})
	require.Equal(t, `"`+handle+`": 1 vram=4.194304e+06 gtt=2.097152e+06 cpu=0
`, scan(t, m.scanner(Options{}), first))
}
