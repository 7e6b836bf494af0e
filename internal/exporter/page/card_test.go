package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Of several partitions the card shows the one that is excluded longest.
func TestEarliestExclusionOfAGPUIsShown(t *testing.T) {
	at := func(minutes int) time.Time { return time.Date(2026, 8, 1, 12, minutes, 0, 0, time.UTC) }
	out := func(state quarantine.State, since time.Time) api.Status {
		return api.Status{View: pool.View{Service: &pool.Service{State: state, Since: since, Why: "hangs"}}}
	}
	in := out(quarantine.InService, at(0))
	require.Nil(t, exclusionOf([]api.Status{in, {}}))
	require.Equal(t, 1, exclusionOf(nil).rank())
	one := exclusionOf([]api.Status{out(quarantine.OnProbation, at(1))})
	require.Equal(t, "↻", one.Mark)
	require.Equal(t, 0, one.rank())
	several := exclusionOf([]api.Status{in, out(quarantine.OnProbation, at(2)), out(quarantine.Quarantined, at(1)), out(quarantine.OnProbation, at(1))})
	require.Equal(t, "⊘", several.Mark)
	require.Contains(t, several.Text, "3 of 4 partitions, the first ")
}

func TestCardOfADividedGPUNamesItsPartitions(t *testing.T) {
	s := api.Status{Index: 8, PCI: "a", UUID: "GPU-1", GFX: "gfx942", Partitions: 8, Driver: "6.10", Health: api.Health{Score: new(99.6)}}
	s.ComputePartition, s.MemoryPartition = "CPX", "NPS4"
	last := s
	last.Index, last.Partition = 15, 7
	g := newCard(api.Report{}, []api.Status{s, last}, Links{})
	require.Equal(t, "GPU 8 to 15", g.Name)
	require.Equal(t, "gfx942, CPX/NPS4, 2 of 8 partitions, driver 6.10", g.Identity)
	require.Equal(t, "100 of 100", g.Score)
	require.Equal(t, "gpu-a-7", g.Parts[1].ID)
	s.Partitions, s.Driver = 1, ""
	require.Equal(t, "gfx942, GPU-1", newCard(api.Report{}, []api.Status{s}, Links{}).Identity)
	s.UUID = "a"
	require.Equal(t, "gfx942", newCard(api.Report{}, []api.Status{s}, Links{}).Identity, "the address is above")
}

func TestLastHolderIsShownOfAFreeGPU(t *testing.T) {
	since := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	lease := &pool.Lease{Last: &pool.Holder{Container: "c", Pod: "p", Namespace: "n", Since: &since}, Doubt: "x"}
	p := newPart(&api.Status{View: pool.View{Lease: lease}}, since, Links{})
	require.Equal(t, &use{Name: "pod n/p, container c", Brief: "since 2026-08-01 12:00:00 UTC"}, p.Last)
	require.Equal(t, "x", p.Doubt)
	require.Zero(t, p.More())
	lease.Held, lease.Container = true, "d"
	p = newPart(&api.Status{Users: []api.User{{Container: "e", Processes: 1}}, View: pool.View{Lease: lease}}, since, Links{})
	require.Nil(t, p.Last)
	require.Equal(t, 1, p.More())
	require.Equal(t, "leased: held, in doubt", p.Uses[0].Brief)
}
