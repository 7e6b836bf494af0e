package health

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

func TestFaultsAreExplained(t *testing.T) {
	counted := func(e amdgpu.Errors) reading.State {
		return reading.State{State: amdgpu.State{Alive: true, RAS: amdgpu.RAS{Errors: &e}}}
	}
	with := func(change func(*reading.State)) reading.State {
		s := counted(amdgpu.Errors{})
		change(&s)
		return s
	}
	bad := &amdgpu.BadPages{Retired: 3}
	for _, c := range []struct {
		s    reading.State
		want []int
	}{
		{reading.State{State: amdgpu.State{Alive: true}}, nil},
		{counted(amdgpu.Errors{}), nil},
		{counted(amdgpu.Errors{Correctable: 5}), nil}, // not well, but well enough
		{reading.State{State: amdgpu.State{Alive: true, RAS: amdgpu.RAS{BadPages: bad}}}, []int{1}},
		{reading.State{Hangs: reading.Hangs{Signals: []string{reading.SignalReset}}}, []int{2}},
		{with(func(s *reading.State) { s.Hangs.InDay = 5 }), []int{2}},
		{with(func(s *reading.State) { s.PCIe.Lanes, s.PCIe.LanesMax = known(4), known(16) }), []int{3}},
		{reading.State{State: amdgpu.State{Alive: true, Temperatures: hot("edge", 99)}}, []int{4}},
		{with(func(s *reading.State) { s.Throttling.ThermalShare = known(.9) }), []int{4}},
		{counted(amdgpu.Errors{Correctable: 2000}), []int{6}},
		{counted(amdgpu.Errors{Deferred: 1}), []int{7}},
		{reading.State{State: amdgpu.State{Alive: true, RAS: amdgpu.RAS{Errors: &amdgpu.Errors{Uncorrectable: 1}, BadPages: bad}}}, []int{1, 7}},
		{with(func(s *reading.State) { s.XGMI.Links = links(1, 8) }), []int{8}},
	} {
		j := Assess(&c.s)
		var got []int
		for _, e := range Explain(j.Codes()) {
			got = append(got, e.Code)
			require.NotEmpty(t, e.Name)
			require.NotEmpty(t, e.Text)
		}
		require.ElementsMatch(t, c.want, got, j.Reason())
	}
}

// A kind that is new must not go without its number and words.
func TestEveryKindHasACodeAndWords(t *testing.T) {
	for kind, code := range map[Kind]int{Hang: 2, Unreadable: 2, UncorrectableErrors: 7, BadPages: 1, DeferredErrors: 7, CorrectableErrors: 6,
		Hot: 4, Throttled: 4, Reset: 2, LinksDown: 8, Narrow: 3, Slow: 3, Replays: 3} {
		f := Fault{Kind: kind, Value: 2, Limit: 4}
		require.Equal(t, code, f.Code(), kind)
		require.NotEqual(t, string(kind), f.Text())
		explained := Explain([]int{code})
		require.Len(t, explained, 1)
		require.NotEmpty(t, explained[0].Name)
		require.NotEmpty(t, explained[0].Text)
	}
}
