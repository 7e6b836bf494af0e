package page

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

func TestFactsShowOnlyWhatTheGPUReports(t *testing.T) {
	require.Empty(t, factsOf(&api.Status{}))
	s := api.Status{Hardware: api.Hardware{
		Clocks: []api.Clock{
			{Domain: "soc", Hertz: 1e9}, {Domain: "mem", Hertz: 9e8}, {Domain: "gfx", Hertz: 2.1e9, Max: new(2.5e9)},
		},
		Fan:        &api.Fan{Drive: new(.41)},
		PCIeLink:   &api.PCIeLink{Speed: new(2.5e9), SpeedMax: new(16e9), Lanes: new(8.), LanesMax: new(16.), Replays: new(37.)},
		Throttling: &api.Throttling{Reasons: []string{"temperature_hotspot", "ppt0"}, Share: new(.234)},
		ECC:        &api.ECC{Uncorrectable: 1, Deferred: 2, Correctable: 37}, BadPages: new(3), Energy: new(7.2e6),
	}}
	require.Equal(t, []fact{
		{Label: "Core clock", Text: "2100", Most: "2500", Unit: " MHz"},
		{Label: "Memory clock", Text: "900", Unit: " MHz"},
		{Label: "Fan", Text: "41 %"},
		{Label: "PCIe", Text: "x8 of x16, 2.5 GT/s of 16 GT/s, 37 replays", Fault: true},
		{Label: "Throttled", Text: "temperature hotspot, ppt0, by heat 23 %", Fault: true},
		{Label: "ECC errors", Text: "1 uncorrected, 2 deferred, 37 corrected", Fault: true},
		{Label: "Bad pages", Text: "3", Fault: true},
		{Label: "Energy", Text: "2.0 kWh"},
	}, factsOf(&s))
	s.Hardware = api.Hardware{Fan: &api.Fan{RPM: new(0.)}, PCIeLink: &api.PCIeLink{Lanes: new(16.)},
		Throttling: &api.Throttling{Reasons: []string{}}, ECC: &api.ECC{}, BadPages: new(0)}
	require.Equal(t, []fact{{Label: "Fan", Text: "0 rpm"}, {Label: "PCIe", Text: "x16"}, {Label: "Throttled", Text: "no"},
		{Label: "ECC errors", Text: "0"}}, factsOf(&s))
	s = api.Status{View: pool.View{MemoryTaken: "58 of 64 GiB are used, and no known process has them"}}
	require.Equal(t, []fact{{Label: "Memory", Text: s.MemoryTaken, Fault: true}}, factsOf(&s))
}

// A value at its limit is as it should be.
func TestFactsAtTheirLimits(t *testing.T) {
	for name, c := range map[string]struct {
		hardware api.Hardware
		want     fact
	}{
		"a clock without a maximum": {api.Hardware{Clocks: []api.Clock{{Domain: "gfx", Hertz: 1e9, Max: new(0.)}}}, fact{Label: "Core clock", Text: "1000", Unit: " MHz"}},
		"a full link": {api.Hardware{PCIeLink: &api.PCIeLink{Lanes: new(16.), LanesMax: new(16.), Speed: new(16e9), SpeedMax: new(16e9), Replays: new(0.)}},
			fact{Label: "PCIe", Text: "x16, 16 GT/s"}},
		"one replay":            {api.Hardware{PCIeLink: &api.PCIeLink{Lanes: new(16.), Replays: new(1.)}}, fact{Label: "PCIe", Text: "x16, 1 replays"}},
		"a slow link":           {api.Hardware{PCIeLink: &api.PCIeLink{Speed: new(8e9), SpeedMax: new(16e9)}}, fact{Label: "PCIe", Text: "8 GT/s of 16 GT/s"}},
		"one reason":            {api.Hardware{Throttling: &api.Throttling{Reasons: []string{"ppt0"}}}, fact{Label: "Throttled", Text: "ppt0"}},
		"little heat":           {api.Hardware{Throttling: &api.Throttling{Share: new(.0049)}}, fact{Label: "Throttled", Text: "no"}},
		"heat":                  {api.Hardware{Throttling: &api.Throttling{Share: new(.01)}}, fact{Label: "Throttled", Text: "no, by heat 1 %", Fault: true}},
		"corrected errors":      {api.Hardware{ECC: &api.ECC{Correctable: 1}}, fact{Label: "ECC errors", Text: "1 corrected"}},
		"a deferred error":      {api.Hardware{ECC: &api.ECC{Deferred: 1}}, fact{Label: "ECC errors", Text: "1 deferred", Fault: true}},
		"an uncorrected error":  {api.Hardware{ECC: &api.ECC{Uncorrectable: 1}}, fact{Label: "ECC errors", Text: "1 uncorrected", Fault: true}},
		"a bad page":            {api.Hardware{BadPages: new(1)}, fact{Label: "Bad pages", Text: "1", Fault: true}},
		"a fan with both parts": {api.Hardware{Fan: &api.Fan{RPM: new(900.), Drive: new(.3)}}, fact{Label: "Fan", Text: "900 rpm, 30 %"}},
	} {
		require.Equal(t, []fact{c.want}, factsOf(&api.Status{Hardware: c.hardware}), name)
	}
	require.True(t, hot(&api.Throttling{Share: new(.005)}))
	require.False(t, fact{Label: "123456789012", Text: "123456", Unit: " MHzz"}.Wide())
	require.True(t, fact{Label: "123456789012", Text: "1234567", Unit: " MHzz"}.Wide())
}

func TestMetersHaveThresholdsOfTheLimit(t *testing.T) {
	s := api.Status{Partitions: 1, Temperature: new(99.), TemperatureLimit: new(105.), Sensor: "mem", Power: new(9.),
		Suspended: true, Activity: new(.5)}
	m := metersOf(&s)
	require.Equal(t, meter{Label: "Temperature", Text: "99 of 105 °C", Note: "mem", Short: "99 °C", Value: "99", Max: "105",
		Low: "89", High: "100"}, m[0])
	require.Equal(t, meter{Label: "Power", Text: "9 W", Short: "9 W"}, m[1], "without a limit there is no bar")
	require.Equal(t, meter{Label: "Memory", Text: "asleep", Short: "asleep"}, m[2])
	require.Equal(t, meter{Label: "Load", Text: "50 %", Short: "50 %", Value: "50", Max: "100"}, m[3], "load has no threshold")
}
