package top

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// A value changes its colour at its share of the limit, not before.
func TestColoursBeginAtTheirShares(t *testing.T) {
	limit := new(100.)
	cell := func(column int, change func(*api.Status)) term.Cell {
		s := api.Status{Temperature: new(1.), TemperatureLimit: limit, Power: new(1.), PowerCap: limit, MemoryUsed: new(1.), MemoryTotal: limit}
		change(&s)
		return gpuLine([]api.Status{s}, "").cells[column]
	}
	for v, want := range map[float64]string{89.9: "", 90: term.Yellow, 99.9: term.Yellow, 100: term.Red} {
		require.Equal(t, want, cell(temperatureColumn, func(s *api.Status) { s.Temperature = &v }).Colour, v)
	}
	for v, want := range map[float64]string{97.9: "", 98: term.Yellow, 120: term.Yellow} {
		require.Equal(t, want, cell(powerColumn, func(s *api.Status) { s.Power = &v }).Colour, "a GPU may run at its cap")
	}
	for v, want := range map[float64]string{89.9: term.Green, 90: term.Yellow, 97.9: term.Yellow, 98: term.Red} {
		require.Equal(t, want, cell(memoryColumn, func(s *api.Status) { s.MemoryUsed = &v }).Colour, v)
	}
	for name, change := range map[string]func(*api.Status){
		"-":      func(s *api.Status) { s.Temperature = nil },
		"asleep": func(s *api.Status) { s.Temperature, s.Suspended = nil, true },
		"1":      func(s *api.Status) { s.TemperatureLimit = nil },
	} {
		require.Equal(t, term.Cell{Text: name}, cell(temperatureColumn, change))
	}
}

func TestStateNamesTheServiceOfExcludedGPUs(t *testing.T) {
	of := func(state health.State, services ...quarantine.State) (l line) {
		var gpus []api.Status
		for _, s := range services {
			gpus = append(gpus, api.Status{Health: api.Health{State: state}, View: pool.View{Service: &pool.Service{State: s}}})
		}
		l.setState(gpus)
		return l
	}
	l := of(health.Healthy, quarantine.InService)
	require.Equal(t, "healthy", l.cells[stateColumn].Text)
	require.Empty(t, l.longState)
	l = of(health.Healthy, quarantine.OnProbation)
	require.Equal(t, term.Cell{Text: quarantine.OnProbation.String(), Colour: term.Yellow}, l.cells[stateColumn])
	require.Equal(t, "healthy, "+quarantine.OnProbation.String(), l.longState)
	l = of(health.Critical, quarantine.InService, quarantine.Quarantined, quarantine.Quarantined)
	require.Equal(t, term.Cell{Text: "2 " + string(quarantine.Quarantined), Colour: term.Red}, l.cells[stateColumn])
}

func TestNamesAreCutToTheirModel(t *testing.T) {
	for name, want := range map[string]string{"AMD Instinct MI300X OAM": "MI300X OAM", "NVIDIA GeForce RTX 4090": "RTX 4090",
		"AMD GPU 1002:744c": "GPU 1002:744c", "Radeon": "Radeon", "": "", "RTX 4090": "4090"} {
		require.Equal(t, want, model(name), name)
	}
	require.Equal(t, "MI300X", fitting("MI300X OAM", 9))
	require.Equal(t, "MI300X OAM", fitting("MI300X OAM", 10))
	require.Equal(t, "MI300X", fitting("MI300X", 3), "one word stays")
	for width, want := range map[int]string{0: "", 1: "…", 2: "a…", 3: "abc", 4: "abc"} {
		require.Equal(t, want, cut("abc", width))
	}
	for used, want := range map[float64]string{5.84: "5.8/20", 0: "0.0/20"} {
		require.Equal(t, want, gib(new(used*(1<<30)), new(20.*(1<<30))))
	}
	require.Equal(t, "5.8/100", gib(new(5.84*(1<<30)), new(99.9*(1<<30))))
	require.Equal(t, "6/100", gib(new(5.84*(1<<30)), new(100.*(1<<30))), "large ones need no tenths")
	require.Equal(t, "5.8", gib(new(5.84*(1<<30)), nil))
}

func TestSharesAreBars(t *testing.T) {
	for share, want := range map[float64]string{-1: "░░░░", 0: "░░░░", .12: "░░░░", .13: "█░░░", 1: "████", 2: "████"} {
		require.Equal(t, want, barOf(&share, 4), share)
	}
	require.Equal(t, "    ", barOf(nil, 4))
}
