package health

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
)

func TestErrorsLowerTheScoreInSteps(t *testing.T) {
	for deferred, want := range map[uint64]float64{0: 100, 1: 70, 9: 70, 10: 40} {
		score, f := counted(&amdgpu.Errors{Deferred: deferred})
		require.InDelta(t, want, score, 0, deferred)
		require.Equal(t, Fault{Kind: DeferredErrors, Value: float64(deferred)}, f, "it wins if both are equal")
	}
	for correctable, want := range map[uint64]float64{1: 90, 99: 90, 100: 70, 999: 70, 1000: 40} {
		score, f := counted(&amdgpu.Errors{Correctable: correctable})
		require.InDelta(t, want, score, 0, correctable)
		require.Equal(t, Fault{Kind: CorrectableErrors, Value: float64(correctable)}, f)
	}
	score, f := counted(&amdgpu.Errors{Deferred: 9, Correctable: 1000})
	require.InDelta(t, 40, score, 0)
	require.Equal(t, CorrectableErrors, f.Kind, "the worse one explains the score")
	score, f = counted(&amdgpu.Errors{Uncorrectable: 1})
	require.Zero(t, score)
	require.Empty(t, f, "a gate reports it")
}

func TestScoresAtTheirBends(t *testing.T) {
	temperature := func(share float64) float64 { return slope(share, .75, 100, .90, 70, 1, 30) }
	for share, want := range map[float64]float64{.5: 100, .75: 100, .825: 85, .90: 70, .95: 50, .9999: 30.04, 1: 0, 1.2: 0} {
		require.InDelta(t, want, temperature(share), .01, share)
	}
	for share, want := range map[float64]float64{0: 100, .05: 85, .1: 70, .3: 50, .5: 30, .75: 15, 1: 0} {
		require.InDelta(t, want, throttled(share), 1e-9, share)
	}
	for n, want := range map[int]float64{0: 100, 1: 70, 2: 55, 3: 40, 4: 25, 5: 0} {
		require.InDelta(t, want, events(n), 0, n)
	}
	for rate, want := range map[float64]float64{.1: 100, .11: 70, 1: 70, 1.01: 40} {
		score, f := link(&amdgpu.PCIe{Lanes: known(16), LanesMax: known(16), ReplayRate: rate}, false)
		require.InDelta(t, want, score, 0, rate)
		require.Equal(t, want < 100, f.Kind == Replays, rate)
	}
}

// Only the slower of two faults of a link is named.
func TestWorstFaultOfALinkIsNamed(t *testing.T) {
	p := amdgpu.PCIe{Lanes: known(8), LanesMax: known(16), Speed: known(16e9), SpeedMax: known(32e9), ReplayRate: 1}
	score, f := link(&p, true)
	require.InDelta(t, 50, score, 0)
	require.Equal(t, Narrow, f.Kind, "the first of equal ones")
	p.Speed = known(15e9)
	_, f = link(&p, true)
	require.Equal(t, Slow, f.Kind)
	p.Speed, p.ReplayRate = known(32e9), 2
	_, f = link(&p, true)
	require.Equal(t, Replays, f.Kind)
}

// The state is the worse one of the mean and of the worst component.
func TestStateAtItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		errors, temperature float64
		score               float64
		state               State
	}{
		"both at the limit of healthy":   {80, 80, 80, Healthy},
		"both below it":                  {79.9, 79.9, 79, Warning},
		"one below it, the mean is good": {79.9, 100, 79, Warning},
		"both at the limit of warning":   {50, 50, 50, Warning},
		"both below that":                {49.9, 49.9, 49, Critical},
		"one at the limit of a part":     {30, 100, 61.11, Warning},
		"one below that":                 {29.9, 100, 49, Critical},
	} {
		j := judge(nil, []part{{Errors, c.errors, Fault{Kind: DeferredErrors}}, {Temperature, c.temperature, Fault{Kind: Hot}}}, false)
		require.Equal(t, c.state, j.State, name)
		require.InDelta(t, c.score, j.Score, .01, name)
	}
}

// A healthy GPU names each deduction, any other only the parts that make it so.
func TestFaultsBelowTheLimitOfTheStateAreNamed(t *testing.T) {
	for errors, want := range map[float64][]Fault{100: nil, 99.9: {{Kind: CorrectableErrors}}, 80: {{Kind: CorrectableErrors}},
		79.9: {{Kind: CorrectableErrors}}} {
		require.Equal(t, want, judge(nil, []part{{Errors, errors, Fault{Kind: CorrectableErrors}}}, false).Faults, errors)
	}
	hot, good := part{Temperature, 79, Fault{Kind: Hot}}, part{Errors, 80, Fault{Kind: CorrectableErrors}}
	require.Equal(t, []Fault{{Kind: Hot}}, judge(nil, []part{hot, good}, false).Faults)
}

// A gate limits the score, and a worse mean lowers it further.
func TestGatesLimitTheScore(t *testing.T) {
	bad := []part{{Errors, 10, Fault{}}}
	for kind, want := range map[Kind]float64{Hang: 0, Unreadable: 0, NoCompute: 0, UncorrectableErrors: 30, BadPages: 30} {
		j := judge([]Fault{{Kind: kind}}, nil, false)
		require.Equal(t, Critical, j.State)
		require.InDelta(t, want, j.Score, 0, kind)
		require.InDelta(t, min(10, want), judge([]Fault{{Kind: kind}}, bad, false).Score, 0, kind)
	}
}

func TestOnlyBadStatesHaveErrorCodes(t *testing.T) {
	faults := []Fault{{Kind: Hot}, {Kind: Throttled}, {Kind: NoCompute}}
	for state, want := range map[State][]int{Healthy: {}, Unknown: {}, Warning: {4}, Critical: {4}} {
		require.Equal(t, want, Judgement{State: state, Faults: faults}.Codes(), state)
	}
}
