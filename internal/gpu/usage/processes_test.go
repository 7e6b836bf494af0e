package usage

import (
	"context"
	"fmt"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/stretchr/testify/require"
)

func TestProcessesWithMemoryAreNamed(t *testing.T) {
	m := newMachine(t)
	m.process(4242, system)
	m.file("/proc/4242/comm", "llama-server\n")
	m.opens(4242, 7, "/dev/dri/renderD128", amdgpu(first.PCI, 5, 4<<20, 0))
	m.kfd(4242, map[string]string{"pasid": "0", "vram_4711": fmt.Sprint(5 << 30)})
	m.process(812, system)
	m.file("/proc/812/comm", "Xorg\n")
	m.opens(812, 9, "/dev/dri/card0", amdgpu(first.PCI, 6, 1<<20, 0))
	m.process(99, task)
	m.file("/proc/99/comm", "python3\n")
	m.opens(99, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 2<<20, 0))
	m.opens(99, 6, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 2<<20, 0)) // the same client
	s := m.scanner(Options{})
	s.Scan(context.Background(), []gpu.Slot{first, second})
	require.Equal(t, []Process{
		{PID: 4242, Name: "llama-server", Memory: 5 << 30}, // KFD's count, which old kernels leave out of DRM's
		{PID: 99, Name: "python3", Container: handle, Memory: 2 << 30},
		{PID: 812, Name: "Xorg", Screen: true, Memory: 1 << 30},
	}, s.Last().Find(first).Processes)
	require.Empty(t, s.Last().Find(second).Processes)

	apu := first
	apu.GFX = "gfx1103"
	s.Scan(context.Background(), []gpu.Slot{apu})
	require.InDelta(t, 2<<30+2<<20, s.Last().Find(apu).Processes[1].Memory, 0, "with GTT")
}

// A machine with hundreds of users has a report of bounded length.
func TestSmallestProcessesAreOneEntry(t *testing.T) {
	var uses []use
	for i := range 11 {
		u := use{client: clientKey{id: uint64(i)}, pid: i + 1}
		u.memory[kindVRAM] = int64(i + 1)
		uses = append(uses, u)
	}
	all := processesOf(newMachine(t).root, uses, false)
	require.Len(t, all, maxProcesses+1)
	require.Equal(t, 11, all[0].PID)
	require.Equal(t, Process{Name: "other processes", Memory: 1 + 2 + 3}, all[maxProcesses])
}
