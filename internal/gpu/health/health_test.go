package health

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

var known = amdgpu.Known

// hot is one sensor with a limit of 100 degrees.
func hot(sensor string, degrees float64) []amdgpu.Temperature {
	return []amdgpu.Temperature{{Sensor: sensor, Now: known(degrees), Critical: known(100)}}
}

// links are XGMI links that were up, of which so many are.
func links(up, all int) (out []amdgpu.Link) {
	for i := range all {
		l := amdgpu.Link{Up: known(0), WasUp: true}
		if i < up {
			l.Up = known(1)
		}
		out = append(out, l)
	}
	return out
}

// apu is an APU, with a driver that gives no limit.
func apu(degrees float64) reading.State {
	s := reading.State{State: amdgpu.State{Alive: true, Table: amdgpu.Table{Revision: &gpumetrics.Revision{Format: 2, Content: 1}}}}
	s.Temperature = amdgpu.Temperature{Sensor: "edge", Now: known(degrees)}
	s.Temperatures = []amdgpu.Temperature{s.Temperature}
	return s
}

// good is a GPU that reports everything, and nothing is wrong.
func good() reading.State {
	s := reading.State{State: amdgpu.State{Alive: true, Temperatures: hot("junction", 60)}}
	s.RAS.Errors, s.RAS.BadPages = &amdgpu.Errors{}, &amdgpu.BadPages{}
	s.Throttling.ThermalShare = known(0)
	s.XGMI.Links = links(7, 7)
	s.PCIe = amdgpu.PCIe{Lanes: known(16), LanesMax: known(16), Speed: known(2.5e9), SpeedMax: known(32e9)}
	return s
}

func TestAssess(t *testing.T) {
	alive := reading.State{State: amdgpu.State{Alive: true}}
	for name, c := range map[string]struct {
		change func(*reading.State)
		score  float64
		state  State
		reason string
		faults []Fault
		codes  []int
	}{
		"all is well": {func(*reading.State) {}, 100, Healthy,
			"nothing wrong with errors, temperature, throttling, events, links and PCIe", nil, nil},
		"one uncorrectable error is never healthy": {func(s *reading.State) { s.RAS.Errors.Uncorrectable = 1 }, 30, Critical,
			"1 uncorrectable error", []Fault{{Kind: UncorrectableErrors, Value: 1}}, []int{7}},
		"one bad page": {func(s *reading.State) { s.RAS.BadPages.Pending = 1 }, 30, Critical,
			"1 bad memory page", []Fault{{Kind: BadPages, Value: 1}}, []int{1}},
		"bad pages of all kinds, and errors": {func(s *reading.State) {
			s.RAS.BadPages, s.RAS.Errors.Uncorrectable = &amdgpu.BadPages{Retired: 2, Pending: 1, Unreservable: 1}, 3
		}, 30, Critical, "3 uncorrectable errors; 4 bad memory pages",
			[]Fault{{Kind: UncorrectableErrors, Value: 3}, {Kind: BadPages, Value: 4}}, []int{1, 7}},
		"a hang leaves nothing": {func(s *reading.State) { s.Hangs.Signals = []string{"devcoredump"} }, 0, Critical,
			"hangs or is in reset (devcoredump)", []Fault{{Kind: Hang, Signals: []string{"devcoredump"}}}, []int{2}},
		"two signals are one hang": {func(s *reading.State) { s.Hangs.Signals = []string{"in_reset", "kernel_log"} }, 0, Critical,
			"hangs or is in reset (in_reset, kernel_log)", []Fault{{Kind: Hang, Signals: []string{"in_reset", "kernel_log"}}}, []int{2}},
		"no answer, and nothing else known": {func(s *reading.State) { *s = reading.State{} }, 0, Critical,
			"does not answer (no file gives a value)", []Fault{{Kind: Unreadable}}, []int{2}},
		"files that answered before": {func(s *reading.State) { s.Lost = []string{"gpu_busy_percent", "gpu_metrics"} }, 0, Critical,
			"does not answer (2 files that did before, gpu_busy_percent for one)", []Fault{{Kind: Unreadable, File: "gpu_busy_percent", Value: 2}}, []int{2}},
		"a few correctable errors are life": {func(s *reading.State) { s.RAS.Errors.Correctable = 99 }, 97.5, Healthy,
			"99 correctable errors", []Fault{{Kind: CorrectableErrors, Value: 99}}, nil},
		"many correctable errors": {func(s *reading.State) { s.RAS.Errors.Correctable = 100 }, 79, Warning,
			"100 correctable errors", []Fault{{Kind: CorrectableErrors, Value: 100}}, []int{6}},
		"a flood of correctable errors": {func(s *reading.State) { s.RAS.Errors.Correctable = 1000 }, 79, Warning,
			"1000 correctable errors", []Fault{{Kind: CorrectableErrors, Value: 1000}}, []int{6}},
		"a deferred error": {func(s *reading.State) { s.RAS.Errors.Deferred = 1 }, 79, Warning,
			"1 deferred error", []Fault{{Kind: DeferredErrors, Value: 1}}, []int{7}},
		"a deferred error says more than many correctable ones": {func(s *reading.State) {
			s.RAS.Errors.Deferred, s.RAS.Errors.Correctable = 1, 100
		}, 79, Warning, "1 deferred error", []Fault{{Kind: DeferredErrors, Value: 1}}, []int{7}},
		"warm": {func(s *reading.State) { s.Temperatures = hot("junction", 75) }, 100, Healthy, "", nil, nil},
		"hot": {func(s *reading.State) { s.Temperatures = hot("junction", 90) }, 79, Warning,
			"junction at 90 of 100 °C", []Fault{{Kind: Hot, Component: "junction", Value: 90, Limit: 100}}, []int{4}},
		"at its limit": {func(s *reading.State) { s.Temperatures = hot("junction", 100) }, 49, Critical,
			"junction at 100 of 100 °C", []Fault{{Kind: Hot, Component: "junction", Value: 100, Limit: 100}}, []int{4}},
		"half the time throttled": {func(s *reading.State) { s.Throttling.ThermalShare = known(.5) }, 79, Warning,
			"throttled by temperature 50 % of the time", []Fault{{Kind: Throttled, Value: .5}}, []int{4}},
		"throttled for good": {func(s *reading.State) { s.Throttling.ThermalShare = known(1) }, 49, Critical,
			"throttled by temperature 100 % of the time", []Fault{{Kind: Throttled, Value: 1}}, []int{4}},
		"a reset today": {func(s *reading.State) { s.Hangs.InDay = 1 }, 79, Warning,
			"hangs and resets in 24 h: 1", []Fault{{Kind: Reset, Value: 1}}, []int{2}},
		"five resets today": {func(s *reading.State) { s.Hangs.InDay = 5 }, 49, Critical,
			"hangs and resets in 24 h: 5", []Fault{{Kind: Reset, Value: 5}}, []int{2}},
		"one link of seven down": {func(s *reading.State) { s.XGMI.Links = links(6, 7) }, 79, Warning,
			"6 of 7 XGMI links up", []Fault{{Kind: LinksDown, Value: 6, Limit: 7}}, []int{8}},
		"all links down": {func(s *reading.State) { s.XGMI.Links = links(0, 7) }, 49, Critical,
			"0 of 7 XGMI links up", []Fault{{Kind: LinksDown, Value: 0, Limit: 7}}, []int{8}},
		"no link to be up": {func(s *reading.State) { s.XGMI.Links = nil }, 100, Healthy, "", nil, nil},
		"a link that is not wired": {func(s *reading.State) { s.XGMI.Links = append(links(6, 6), amdgpu.Link{Up: known(0)}) }, 100,
			Healthy, "", nil, nil},
		"a link that tells nothing now": {func(s *reading.State) { s.XGMI.Links = append(links(6, 6), amdgpu.Link{WasUp: true}) }, 100,
			Healthy, "", nil, nil},
		"a whole link in a guest": {func(s *reading.State) { s.PCIe.Hidden = true }, 100, Healthy,
			"nothing wrong with errors, temperature, throttling, events and links", nil, nil},
		"a narrow link in a guest": {func(s *reading.State) { s.PCIe.Hidden, s.PCIe.Lanes = true, known(8) }, 79, Warning,
			"PCIe link x8 of x16", []Fault{{Kind: Narrow, Value: 8, Limit: 16}}, []int{3}},
		"half the lanes": {func(s *reading.State) { s.PCIe.Lanes = known(8) }, 79, Warning,
			"PCIe link x8 of x16", []Fault{{Kind: Narrow, Value: 8, Limit: 16}}, []int{3}},
		"a slow link while busy": {func(s *reading.State) { s.Activity.Graphics = known(.5) }, 49, Critical,
			"PCIe link at 2.5 of 32.0 GT/s under load", []Fault{{Kind: Slow, Value: 2.5e9, Limit: 32e9}}, []int{3}},
		"a slow link while there is little to do": {func(s *reading.State) { s.Activity.Graphics = known(.49) }, 100, Healthy, "", nil, nil},
		"replays": {func(s *reading.State) { s.PCIe.ReplayRate = .2 }, 79, Warning,
			"0.2 PCIe replays a second", []Fault{{Kind: Replays, Value: .2}}, []int{3}},
		"corrected errors at the port above": {func(s *reading.State) {
			s.PCIe.AER = []amdgpu.AERCount{{Severity: "correctable"}}
			s.PCIe.PortAER = []amdgpu.AERCount{{Port: "0000:04:01.0", Severity: "correctable", Errors: 79572}, {Port: "0000:00:1b.4", Severity: "nonfatal", Errors: 3}}
		}, 79, Warning, "79572 PCIe errors at the port 0000:04:01.0",
			[]Fault{{Kind: LinkErrors, Component: "0000:04:01.0", Value: 79572}}, []int{3}},
		"corrected errors, and no width": {func(s *reading.State) {
			s.PCIe = amdgpu.PCIe{AER: []amdgpu.AERCount{{Severity: "correctable", Errors: 1000}}}
		}, 79, Warning, "1000 PCIe errors", []Fault{{Kind: LinkErrors, Value: 1000}}, []int{3}},
		"a fatal error": {func(s *reading.State) {
			s.PCIe.AER = []amdgpu.AERCount{{Severity: "fatal", Errors: 1}}
		}, 79, Warning, "1 PCIe error", []Fault{{Kind: LinkErrors, Value: 1}}, []int{3}},
		"some corrected errors": {func(s *reading.State) {
			s.PCIe.AER = []amdgpu.AERCount{{Severity: "correctable", Errors: 999}, {Severity: "nonfatal", Errors: 99}}
		}, 100, Healthy, "", nil, nil},
		"nine rings reset": {func(s *reading.State) { s.Hangs.RingResets = 9 }, 99.25, Healthy,
			"rings reset in 24 h: 9, each with the work of one process", []Fault{{Kind: RingResets, Value: 9}}, nil},
		"ten rings reset": {func(s *reading.State) { s.Hangs.RingResets = 10 }, 79, Warning,
			"rings reset in 24 h: 10, each with the work of one process", []Fault{{Kind: RingResets, Value: 10}}, []int{2}},
		// Events are known of every GPU, so errors never stand alone.
		"weights go to what is there": {func(s *reading.State) {
			*s = alive
			s.RAS.Errors = &amdgpu.Errors{Correctable: 5}
		}, 93.75, Healthy, "5 correctable errors", []Fault{{Kind: CorrectableErrors, Value: 5}}, nil},
		"a temperature alone will do": {func(s *reading.State) {
			*s = alive
			s.Temperatures = hot("junction", 60)
		}, 100, Healthy, "nothing wrong with temperature and events", nil, nil},
		"a guest without limits tells the time under them": {func(s *reading.State) {
			*s = alive
			s.Temperatures = []amdgpu.Temperature{{Sensor: "junction", Now: known(60)}}
			s.Throttling.ThermalShare = known(0)
		}, 100, Healthy, "nothing wrong with throttling and events", nil, nil},
		"a guest that is slowed down by heat": {func(s *reading.State) {
			*s = alive
			s.Throttling.ThermalShare = known(.5)
		}, 65, Warning, "throttled by temperature 50 % of the time", []Fault{{Kind: Throttled, Value: .5}}, []int{4}},
		"an APU under load": {func(s *reading.State) { *s = apu(92) }, 100, Healthy, "nothing wrong with temperature and events", nil, nil},
		"an APU at its limit": {func(s *reading.State) { *s = apu(100) }, 79, Warning,
			"edge at 100 of 100 °C", []Fault{{Kind: Hot, Component: "edge", Value: 100, Limit: 100}}, []int{4}},
		"an APU beyond a limit that is not its own word": {func(s *reading.State) { *s = apu(107) }, 60, Warning,
			"edge at 107 of 100 °C", []Fault{{Kind: Hot, Component: "edge", Value: 107, Limit: 100}}, []int{4}},
		"errors of a GPU that sleeps are known": {func(s *reading.State) {
			s.RuntimePower, s.Temperatures, s.Throttling.ThermalShare = "suspended", hot("junction", 120), known(1)
		}, 100, Healthy, "nothing wrong with errors, events, links and PCIe", nil, nil},
		"everything somewhat wrong adds up": {func(s *reading.State) {
			s.Temperatures, s.Hangs.InDay, s.Throttling.ThermalShare, s.RAS.Errors.Correctable = hot("junction", 98), 4, known(.5), 1000
		}, 49, Critical, "1000 correctable errors; junction at 98 of 100 °C; throttled by temperature 50 % of the time; hangs and resets in 24 h: 4",
			[]Fault{{Kind: CorrectableErrors, Value: 1000}, {Kind: Hot, Component: "junction", Value: 98, Limit: 100},
				{Kind: Throttled, Value: .5}, {Kind: Reset, Value: 4}}, []int{2, 4, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			c.change(&s)
			j := Assess(&s)
			require.Equal(t, c.state, j.State)
			require.InDelta(t, c.score, j.Score, 1e-4)
			require.Equal(t, c.faults, j.Faults)
			require.Equal(t, append([]int{}, c.codes...), j.Codes())
			if c.reason != "" {
				require.Equal(t, c.reason, j.Reason())
			}
		})
	}
}

func TestGPUWithoutValuesIsUnknown(t *testing.T) {
	idle := reading.State{State: amdgpu.State{Alive: true}}
	idle.Temperatures = []amdgpu.Temperature{{Sensor: "junction", Now: known(45)}}
	idle.PCIe = amdgpu.PCIe{Lanes: known(8), LanesMax: known(16)}
	for reason, s := range map[string]reading.State{
		"no error counters, no temperature with its limit and no time under limits": idle,
		"suspended, and without error counters":                                     {State: amdgpu.State{Alive: true, RuntimePower: "suspended"}},
	} {
		j := Assess(&s)
		require.True(t, math.IsNaN(j.Score))
		require.Equal(t, Unknown, j.State)
		require.Equal(t, reason, j.Reason())
		require.Empty(t, j.Faults, "nothing that it tells is worth a word")
		require.Equal(t, []int{}, j.Codes())
	}
}

func TestGPUWithAHangingDriverIsCritical(t *testing.T) {
	j := Silent("gpu_busy_percent")
	require.Equal(t, Judgement{State: Critical, Score: 0, Faults: []Fault{{Kind: Hang, Signals: []string{reading.SignalTimeout}},
		{Kind: Unreadable, File: "gpu_busy_percent"}}}, j)
	require.Equal(t, "hangs or is in reset (timeout); does not answer (reading gpu_busy_percent does not end)", j.Reason())
	require.Equal(t, []int{2}, j.Codes(), "once, though two faults say so")
}

// Whatever a GPU reports: a fault that a gate names is critical, the score agrees with the
// state, and there is a reason, with a number if something is wrong.
func TestScoreAndStateAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(limit float64) float64 { return r.Float64() * limit }
	for range 20_000 {
		s := reading.State{State: amdgpu.State{Alive: true}}
		if r.IntN(2) == 0 {
			s.RAS.Errors = &amdgpu.Errors{Uncorrectable: uint64(r.IntN(3)) / 2, Deferred: uint64(r.IntN(20)), Correctable: uint64(r.IntN(2000))}
		}
		if r.IntN(2) == 0 {
			s.Temperatures = hot("edge", pick(130))
		}
		if r.IntN(2) == 0 {
			s.Throttling.ThermalShare, s.Hangs.InDay = known(pick(1)), r.IntN(7)
		}
		if r.IntN(4) == 0 {
			s.RAS.BadPages, s.XGMI.Links = &amdgpu.BadPages{Retired: r.IntN(2)}, links(r.IntN(8), 8)
			s.PCIe = amdgpu.PCIe{Lanes: known(pick(16)), LanesMax: known(16), ReplayRate: pick(2)}
		}
		j := Assess(&s)
		require.NotEmpty(t, j.Reason())
		switch j.State {
		case Healthy:
			require.GreaterOrEqual(t, j.Score, 80.0)
			require.True(t, s.RAS.Errors == nil || s.RAS.Errors.Uncorrectable == 0)
			require.True(t, s.RAS.BadPages == nil || s.RAS.BadPages.Total() == 0)
		case Warning:
			require.Less(t, j.Score, 80.0)
		case Critical:
			require.Less(t, j.Score, 50.0)
		case Unknown:
			require.True(t, s.RAS.Errors == nil && s.Temperatures == nil && !s.Throttling.ThermalShare.Known)
		}
		if j.State != Unknown {
			require.True(t, j.Score >= 0 && j.Score <= 100)
		}
		sick := j.State == Warning || j.State == Critical
		require.Equal(t, sick, len(j.Codes()) > 0, "what is wrong has a number, and what is not has none")
		require.True(t, !sick || len(j.Faults) > 0)
		for _, f := range j.Faults {
			require.NotEmpty(t, f.Kind)
			require.NotEqual(t, string(f.Kind), f.Text(), "it has words of its own")
		}
	}
}
