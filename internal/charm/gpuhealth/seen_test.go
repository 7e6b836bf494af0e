package gpuhealth

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Only faulty GPUs of a real exporter's report are quarantined. Partitions and integrated
// GPUs are not, although they lack some values.
func TestGPUsOfEveryHostAreInService(t *testing.T) {
	for name, sick := range map[string]string{"amd": "", "mi210x4": "0000:c3:00.0", "mi300x-cpx": "", "apu-gfx1103": "", "amd-nvidia": ""} {
		r := hosttest.Host(t, name)
		seen := seenOf(monitor.New(r, monitor.All(r), monitor.Options{}).Report().GPUs)
		rec := quarantine.Decide(quarantine.Record{}, quarantine.Look{At: hosttest.Now, Policy: quarantine.Auto, GPUs: seen})
		require.Len(t, rec.GPUs, len(seen))
		out := ""
		for _, g := range rec.NotInService() {
			out += g.Name
		}
		require.Equal(t, sick, out, name)
	}
}

// GPUs of other vendors are not quarantined.
func TestOnlyAMDGPUsAreQuarantined(t *testing.T) {
	require.Equal(t, []quarantine.Reading{{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: "0000:03:00.0"}, Up: true}}, seenOf([]api.Status{
		{Vendor: "nvidia", PCI: "0000:0a:00.0", Health: api.Health{State: health.Critical, Faults: []health.Fault{{Kind: health.Hang}}}},
		{Vendor: "amd", PCI: "0000:03:00.0", Up: true}}))
}

// Only containers that have the GPU open now may read its memory. Partitions share theirs.
func TestUsersOfAGPUAreContainers(t *testing.T) {
	const build, other = "0badcafe-0000-4000-8000-000000000001", "0badcafe-0000-4000-8000-000000000002"
	used := 5.
	all := gpus(3, func(i int, s *api.Status) {
		s.MemoryUsed, s.MemoryTotal, s.Partitions = &used, &used, i
		s.Users = []api.User{{Container: build, Processes: 1}, {Container: other}, {Container: "../x", Processes: 1}}
	})
	all[2].Users = nil
	seen := seenOf(all)
	require.Equal(t, []string{build, other}, seen[0].Users)
	require.Equal(t, []string{build}, seen[0].Open)
	require.Nil(t, seen[2].Open, "its users are not known")
	require.Equal(t, &used, seen[1].Memory)
	require.Nil(t, seen[2].Memory)
	require.NotNil(t, openIn([]api.User{}), "known to have none")
}

// The driver counts the memory in use for the whole card, and a partition has an equal part of it.
func TestMemoryOfAPartitionIsThatOfItsProcesses(t *testing.T) {
	total := 192.
	all := gpus(2, func(i int, s *api.Status) {
		s.PCI, s.Partition, s.Partitions, s.Users = "0000:03:00.0", i, 8, []api.User{}
	})
	all[0].MemoryUsed, all[0].MemoryTotal = &total, &total
	all[1].Processes = []usage.Process{{PID: 7, Memory: 9}, {PID: 8, Memory: 2}, {PID: 4711, Host: true, Memory: 9}}
	seen := seenOf(all)
	for i, used := range []float64{0, 11} {
		require.True(t, seen[i].Partition)
		require.Equal(t, []float64{used, 24}, []float64{*seen[i].Memory, *seen[i].Total})
	}
	all[1].Users = nil
	require.Nil(t, seenOf(all)[1].Memory, "its processes are unknown")
}
