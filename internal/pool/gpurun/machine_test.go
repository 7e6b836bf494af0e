package gpurun

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

func TestGPUsAreNamedByNumberAddressAndID(t *testing.T) {
	m := machineOf("gfx90a", "gfx90a", "gfx942")
	m.GPUs[2].PCI, m.GPUs[2].Partition = m.GPUs[1].PCI, 1 // two partitions of one GPU
	for name, want := range map[string][]int{
		"0": {0}, "2": {2}, "0000:01:00.0": {0}, "01:00.0": {0}, "GPU-000000000000000b": {1}, "gpu-000000000000000B": {1},
		"0000:02:00.0": {1, 2}, "0000:02:00.0-1": {2},
	} {
		got, count, err := m.candidates(Request{IDs: []string{name}})
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.Equal(t, len(want), count)
	}
	for _, name := range []string{"3", "", "-1", "00", "GPU-", "0000:09:00.0", "1\n"} {
		_, _, err := m.candidates(Request{IDs: []string{name}})
		require.ErrorContains(t, err, "this machine has 0, 1, 2", name)
	}
	got, count, err := m.candidates(Request{IDs: []string{"1", "GPU-000000000000000b", "0"}})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, got)
	require.Equal(t, 2, count, "a GPU with two names is one GPU")
	_, _, err = m.candidates(Request{IDs: []string{"0"}, Arch: "gfx942"})
	require.ErrorContains(t, err, "cannot lease 1 GPU: 0 of the named GPUs are of gfx942")
	_, _, err = Machine{}.candidates(Request{GPUs: 1})
	require.ErrorContains(t, err, "no AMD GPU that a program can use")
}

// Programs of each kind see the same GPUs in the same order: ROCm's.
func TestVariablesAgree(t *testing.T) {
	m := machineOf("gfx90a", "gfx90a", "gfx90a")
	m.GPUs[0].UniqueID = ""
	require.Equal(t, []string{"ROCR_VISIBLE_DEVICES=0,1", "HIP_VISIBLE_DEVICES=0,1", "GPU_DEVICE_ORDINAL=0,1",
		"CUDA_VISIBLE_DEVICES=0,1", "AMD_VISIBLE_DEVICES=GPU-000000000000000c,0", "GPUKIT_RUN=run-1"},
		m.variables("run-1", []int{0, 2}, true), "the kernel hides the others")
	require.Equal(t, []string{"ROCR_VISIBLE_DEVICES=GPU-000000000000000c,2", "HIP_VISIBLE_DEVICES=0,1",
		"GPU_DEVICE_ORDINAL=0,1", "CUDA_VISIBLE_DEVICES=0,1", "AMD_VISIBLE_DEVICES=GPU-000000000000000c,0",
		"GPUKIT_RUN=run-1"}, m.variables("run-1", []int{0, 2}, false))
}

func TestAllOtherNodesAreDenied(t *testing.T) {
	m := machineOf("a", "a")
	m.GPUs[0].Devices, m.GPUs[1].Devices = []rungroup.Device{{Major: 226, Minor: 128}},
		[]rungroup.Device{{Major: 226, Minor: 129}}
	m.Others = []rungroup.Device{{Major: 226, Minor: 130}}
	require.Equal(t, []rungroup.Device{{Major: 226, Minor: 130}, {Major: 226, Minor: 129}}, m.denied([]int{0}))
	require.Equal(t, m.Others, m.denied([]int{0, 1}))
}

// Memory that others use is not free, and a GPU that never has enough is no candidate.
func TestMemoryIsWhatOthersDoNotUse(t *testing.T) {
	m := machineOf("a", "a")
	for i, sizes := range [][2]int{{64 << 30, 10 << 30}, {16 << 30, 0}} {
		m.GPUs[i].Total, m.GPUs[i].Used = filepath.Join(t.TempDir(), "total"), filepath.Join(t.TempDir(), "used")
		require.NoError(t, os.WriteFile(m.GPUs[i].Total, []byte(strconv.Itoa(sizes[0])+"\n"), 0o644))
		require.NoError(t, os.WriteFile(m.GPUs[i].Used, []byte(strconv.Itoa(sizes[1])+"\n"), 0o644))
	}
	of, _, err := m.candidates(Request{GPUs: 1, Memory: 60 << 30})
	require.NoError(t, err)
	require.Equal(t, []int{0}, of)
	require.Equal(t, "has 54.0 GiB of memory free", m.GPUs[0].freeMemory(60<<30))
	require.Empty(t, m.GPUs[0].freeMemory(54<<30))
	require.Empty(t, m.GPUs[0].freeMemory(0))
}
