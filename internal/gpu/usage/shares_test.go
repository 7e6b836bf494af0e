package usage

import (
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/stretchr/testify/require"
)

func TestShareIsThePartOfTheWork(t *testing.T) {
	const card = "0000:03:00.0"
	row := func(name string, kfd float64, units float64, busy ...Amount) Row {
		r := Row{Container: name, Processes: 1, Busy: busy}
		if kfd >= 0 {
			r.Memory = []Amount{{"vram", 1 << 20}, {"kfd", kfd}}
		}
		if units >= 0 {
			r.Units = []Amount{{Value: units}}
		}
		return r
	}
	for name, tt := range map[string]struct {
		rows [][]Row // of each partition
		want map[string]float64
	}{
		"engine time": {[][]Row{{row("a", -1, -1, Amount{"gfx", .3}, Amount{"dma", .1}), row("b", -1, -1, Amount{"compute", 1.2})}},
			map[string]float64{"a": .25, "b": .75}},
		"a container that only has the GPU open": {[][]Row{{row("a", -1, -1, Amount{"gfx", .3}), row("b", 0, 0)}},
			map[string]float64{"a": 1}},
		"a container that ended": {[][]Row{{row("a", -1, -1, Amount{"gfx", .2}), row("b", -1, -1, Amount{"gfx", 0})}},
			map[string]float64{"a": 1, "b": 0}},
		"nothing worked":                {[][]Row{{row("a", -1, -1), row("b", -1, -1, Amount{"gfx", 0})}}, nil},
		"ROCm, by busy compute units":   {[][]Row{{row("a", 1<<30, 30, Amount{"kfd_sdma", .9}), row("b", 1<<30, 90)}}, map[string]float64{"a": .25, "b": .75}},
		"ROCm on a GPU without units":   {[][]Row{{row("a", 1<<30, -1), row("b", 1<<30, -1, Amount{"kfd_sdma", .9})}}, nil},
		"ROCm beside graphics":          {[][]Row{{row("a", 1<<30, 30), row("b", -1, -1, Amount{"gfx", .5})}}, nil},
		"ROCm with a little of DRM's":   {[][]Row{{row("a", 1<<30, 30, Amount{"dma", .001}), row("b", 1<<30, 30)}}, map[string]float64{"a": .5, "b": .5}},
		"over all partitions":           {[][]Row{{row("a", 1<<30, 20)}, {row("b", 1<<30, 60)}}, map[string]float64{"a": .25, "b": .75}},
		"no container has the GPU open": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := Result{Devices: []Used{{gpu.Slot{PCI: "0000:43:00.0"}, []Row{row("c", -1, -1, Amount{"gfx", 1})}, nil}}}
			for i, rows := range tt.rows {
				r.Devices = append(r.Devices, Used{gpu.Slot{PCI: card, Partition: i}, rows, nil})
			}
			got := r.Shares(card)
			for container, part := range tt.want {
				require.InDelta(t, part, got[container], 1e-9, container)
			}
			require.Equal(t, tt.want == nil, got == nil)
		})
	}
}

func TestWorkersAreKnownIfTheDriverCountsTheirWork(t *testing.T) {
	busy := func(v float64) []Amount { return []Amount{{"gfx", v}} }
	rocm := []Amount{{"kfd", 1 << 30}}
	for name, c := range map[string]struct {
		rows []Row
		want map[string]bool
	}{
		"nobody":                       {nil, map[string]bool{}},
		"one works and one waits":      {[]Row{{Container: "a", Processes: 1, Busy: busy(.9)}, {Container: "b", Processes: 2, Busy: busy(0)}}, map[string]bool{"a": true, "b": false}},
		"before the second scan":       {[]Row{{Container: "a", Processes: 1}}, nil},
		"one that ended":               {[]Row{{Container: "a"}}, map[string]bool{}},
		"ROCm with compute units":      {[]Row{{Container: "a", Processes: 1, Memory: rocm, Units: []Amount{{"cu", 40}}}}, map[string]bool{"a": true}},
		"ROCm without a busy one":      {[]Row{{Container: "a", Processes: 1, Memory: rocm, Busy: busy(0), Units: []Amount{{"cu", 0}}}}, map[string]bool{"a": false}},
		"ROCm without compute units":   {[]Row{{Container: "a", Processes: 1, Memory: rocm, Busy: busy(0)}}, nil},
		"little work of ROCm's engine": {[]Row{{Container: "a", Processes: 1, Busy: busy(.005)}}, map[string]bool{"a": false}},
	} {
		r := Result{Devices: []Used{{Slot: first, Rows: c.rows}}}
		require.Equal(t, c.want, r.Workers(first.PCI), name)
		require.Nil(t, r.Workers("0000:ff:00.0"), "its driver did not answer")
	}
}
