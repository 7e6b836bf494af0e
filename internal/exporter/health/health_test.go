package health

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func ptr[T any](v T) *T { return &v }

// good is a GPU with every input, and nothing wrong.
func good() Inputs {
	return Inputs{Errors: &Errors{}, BadPages: ptr(0), Temperature: &Temperature{"junction", 60, 100}, ThermalShare: ptr(0.0),
		Events: ptr(0), Links: &Links{7, 7}, PCIe: &PCIe{Width: 16, MaxWidth: 16, Speed: 2.5e9, MaxSpeed: 32e9}}
}

func TestAssess(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Inputs)
		score  float64
		state  State
		reason string
	}{
		"all is well": {func(*Inputs) {}, 100, Healthy,
			"nothing wrong with errors, temperature, throttling, events, links and PCIe"},
		"one uncorrectable error is never healthy": {func(in *Inputs) { in.Errors.Uncorrectable = 1 }, 30, Critical,
			"1 uncorrectable error"},
		"one bad page": {func(in *Inputs) { in.BadPages = ptr(1) }, 30, Critical, "1 bad memory page"},
		"a hang leaves nothing": {func(in *Inputs) { in.Hang = "devcoredump" }, 0, Critical,
			"hangs or is in reset (devcoredump)"},
		"no answer, and nothing else known": {func(in *Inputs) { *in = Inputs{Unreadable: "timeout"} }, 0, Critical,
			"does not answer (timeout)"},
		"a few correctable errors are life": {func(in *Inputs) { in.Errors.Correctable = 99 }, 97.5, Healthy, ""},
		"many correctable errors":           {func(in *Inputs) { in.Errors.Correctable = 100 }, 79, Warning, "100 correctable errors"},
		"a flood of correctable errors":     {func(in *Inputs) { in.Errors.Correctable = 1000 }, 79, Warning, "1000 correctable errors"},
		"a deferred error":                  {func(in *Inputs) { in.Errors.Deferred = 1 }, 79, Warning, "1 deferred error"},
		"warm":                              {func(in *Inputs) { in.Temperature.Value = 75 }, 100, Healthy, ""},
		"hot":                               {func(in *Inputs) { in.Temperature.Value = 90 }, 79, Warning, "junction at 90 of 100 °C"},
		"at its limit":                      {func(in *Inputs) { in.Temperature.Value = 100 }, 49, Critical, "junction at 100 of 100 °C"},
		"half the time throttled":           {func(in *Inputs) { in.ThermalShare = ptr(.5) }, 79, Warning, "throttled by temperature 50 % of the time"},
		"throttled for good":                {func(in *Inputs) { in.ThermalShare = ptr(1.0) }, 49, Critical, "throttled by temperature 100 % of the time"},
		"a reset today":                     {func(in *Inputs) { in.Events = ptr(1) }, 79, Warning, "hangs and resets in 24 h: 1"},
		"five resets today":                 {func(in *Inputs) { in.Events = ptr(5) }, 49, Critical, "hangs and resets in 24 h: 5"},
		"one link of seven down":            {func(in *Inputs) { in.Links.Up = 6 }, 79, Warning, "6 of 7 XGMI links up"},
		"all links down":                    {func(in *Inputs) { in.Links.Up = 0 }, 49, Critical, "0 of 7 XGMI links up"},
		"no link to be up":                  {func(in *Inputs) { in.Links = &Links{} }, 100, Healthy, ""},
		"half the lanes":                    {func(in *Inputs) { in.PCIe.Width = 8 }, 79, Warning, "PCIe link x8 of x16"},
		"a slow link while busy":            {func(in *Inputs) { in.PCIe.Busy = true }, 49, Critical, "PCIe link at 2.5 of 32.0 GT/s under load"},
		"replays":                           {func(in *Inputs) { in.PCIe.Replays = .2 }, 79, Warning, "0.2 PCIe replays a second"},
		"weights go to what is there":       {func(in *Inputs) { *in = Inputs{Errors: &Errors{Correctable: 5}} }, 90, Healthy, "5 correctable errors"},
		"a temperature alone will do":       {func(in *Inputs) { *in = Inputs{Temperature: in.Temperature} }, 100, Healthy, "nothing wrong with temperature"},
		"everything somewhat wrong adds up": {func(in *Inputs) {
			in.Temperature.Value, in.Events, in.ThermalShare, in.Errors.Correctable = 98, ptr(4), ptr(.5), 1000
		}, 0, Critical, "1000 correctable errors; junction at 98 of 100 °C; throttled by temperature 50 % of the time; hangs and resets in 24 h: 4"},
	} {
		t.Run(name, func(t *testing.T) {
			in := good()
			c.change(&in)
			score, state, reason := Assess(in)
			require.Equal(t, c.state, state)
			if name != "everything somewhat wrong adds up" {
				require.InDelta(t, c.score, score, 1e-4)
			}
			if c.reason != "" {
				require.Equal(t, c.reason, reason)
			}
		})
	}
}

func TestGPUThatTellsNothingIsUnknown(t *testing.T) {
	for reason, in := range map[string]Inputs{
		"neither error counters nor a temperature with its limit": {Events: ptr(0), ThermalShare: ptr(0.0), PCIe: &PCIe{}},
		"suspended, and without error counters":                   {Suspended: true, Events: ptr(0)},
	} {
		score, state, got := Assess(in)
		require.True(t, math.IsNaN(score))
		require.Equal(t, Unknown, state)
		require.Equal(t, reason, got)
	}
}

// Whatever the inputs: a fault that a gate names is critical, the score agrees
// with the state, and there is a reason.
func TestScoreAndStateAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(limit float64) float64 { return r.Float64() * limit }
	for range 20_000 {
		in := Inputs{}
		if r.IntN(2) == 0 {
			in.Errors = &Errors{uint64(r.IntN(3)) / 2, uint64(r.IntN(20)), uint64(r.IntN(2000))}
		}
		if r.IntN(2) == 0 {
			in.Temperature = &Temperature{"edge", pick(130), 100}
		}
		if r.IntN(2) == 0 {
			in.ThermalShare, in.Events = ptr(pick(1)), ptr(r.IntN(7))
		}
		if r.IntN(4) == 0 {
			in.BadPages, in.Links, in.PCIe = ptr(r.IntN(2)), &Links{r.IntN(8), 8}, &PCIe{Width: pick(16), MaxWidth: 16, Replays: pick(2)}
		}
		score, state, reason := Assess(in)
		require.NotEmpty(t, reason)
		switch state {
		case Healthy:
			require.GreaterOrEqual(t, score, 80.0)
			require.True(t, in.Errors == nil || in.Errors.Uncorrectable == 0)
			require.True(t, in.BadPages == nil || *in.BadPages == 0)
		case Warning:
			require.Less(t, score, 80.0)
		case Critical:
			require.Less(t, score, 50.0)
		case Unknown:
			require.True(t, in.Errors == nil && in.Temperature == nil)
		}
		if state != Unknown {
			require.True(t, score >= 0 && score <= 100)
		}
	}
}
