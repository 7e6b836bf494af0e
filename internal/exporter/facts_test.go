package exporter

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/exporter/health"
	"concourse-ci-machine/internal/host/hosttest"
)

// sensors are hwmon's files of temperatures: label, degrees, limit (0: none).
func sensors(all ...any) map[string]string {
	files := map[string]string{"gpu_busy_percent": "5\n", "hwmon/hwmon3/name": "amdgpu\n"}
	for i := 0; i < len(all); i += 3 {
		base := fmt.Sprintf("hwmon/hwmon3/temp%d_", i/3+1)
		files[base+"label"], files[base+"input"] = all[i].(string)+"\n", fmt.Sprintf("%d000\n", all[i+1])
		if limit := all[i+2].(int); limit > 0 {
			files[base+"crit"] = fmt.Sprintf("%d000\n", limit)
		}
	}
	return files
}

func TestTemperatureIsJudgedByTheSensorNearestItsLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		files  map[string]string
		sensor string
		state  health.State
		edge   float64 // rocm_gpu_temperature, the contract's
	}{
		"all cool":                   {sensors("edge", 40, 100, "junction", 50, 110, "mem", 45, 108), "junction", health.Healthy, 40},
		"a junction beyond its own":  {sensors("edge", 70, 100, "junction", 121, 110, "mem", 60, 108), "junction", health.Critical, 70},
		"memory near its own":        {sensors("edge", 60, 100, "junction", 80, 110, "mem", 107, 108), "mem", health.Warning, 60},
		"the only one with a limit":  {sensors("edge", 60, 100, "junction", 99, 0), "edge", health.Healthy, 60},
		"none has a limit (in a VM)": {sensors("edge", 60, 0, "junction", 99, 0), "edge", health.Unknown, 60},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := cardOf(put(t, tt.files))
			s := c.read(true, newMemory())
			require.Equal(t, tt.sensor, s.vitals.Temperature.Sensor)
			require.Equal(t, tt.state, s.vitals.Verdict.State, s.vitals.Verdict.Reason)
			require.Equal(t, tt.edge, allOf(s)["rocm_gpu_temperature"])
		})
	}
}

// Not every link of a board is wired, and in a guest all are told as down.
func TestOnlyALinkThatWasUpCanBeLost(t *testing.T) {
	const status = 31
	r := put(t, sensors("edge", 40, 100))
	c, _ := cardOf(r)
	read := func(links ...uint64) verdict {
		t.Helper()
		b := []byte{0, 0, 1, 9, 1, 0, 0, 0}
		b = appendAttribute(b, status, links)
		hosttest.Put(t, r, dev+"/gpu_metrics", string(b))
		return c.read(true, newMemory()).vitals.Verdict
	}
	require.Equal(t, health.Healthy, read(0, 0, 0, 0).State, "none was ever up")
	require.Equal(t, health.Healthy, read(1, 1, 0, 2).State)
	v := read(1, 0, 0, 2)
	require.Equal(t, health.Warning, v.State)
	require.Equal(t, "1 of 2 XGMI links up", v.Reason)
	require.Equal(t, health.Healthy, read(1, 1, 0, 2).State)
}

func TestClockRangeIsOfLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		table     string
		low, high float64
	}{
		"levels":                           {"0: 300Mhz *\n1: 608Mhz\n2: 1340Mhz\n", 300, 1340},
		"fine-grained, idle (RX 7900 XTX)": {"0: 500Mhz\n1: 31Mhz *\n2: 2526Mhz\n", 500, 2526},
		"fine-grained, boosted":            {"0: 500Mhz\n1: 2600Mhz *\n2: 2526Mhz\n", 500, 2526},
		"fine-grained, at the lowest":      {"0: 500Mhz *\n1: 2526Mhz\n", 500, 2526},
		"asleep":                           {"S: 19Mhz *\n0: 500Mhz\n1: 3450Mhz\n", 500, 3450},
		"level 0 is called S (RX 9070)":    {"S: 500Mhz\n1: 789Mhz *\n2: 2070Mhz\n", 500, 2070},
		"the present one is 0 (RX 7600S)":  {"0: 255Mhz\n1: 0Mhz *\n2: 1841Mhz\n", 255, 1841},
	} {
		low, high, ok := clockRange(tt.table)
		require.True(t, ok, name)
		require.Equal(t, []float64{tt.low, tt.high}, []float64{low, high}, name)
	}
}

func TestRails(t *testing.T) {
	files := sensors("edge", 40, 100)
	for i, rail := range [][2]string{{"vddgfx", "0\n"}, {"vddboard", "52693\n"}, {"vddnb", "812\n"}} {
		files[fmt.Sprintf("hwmon/hwmon3/in%d_label", i)] = rail[0] + "\n"
		files[fmt.Sprintf("hwmon/hwmon3/in%d_input", i)] = rail[1]
	}
	c, _ := cardOf(put(t, files))
	s := c.read(true, newMemory())
	got := allOf(s)
	require.Empty(t, s.Failures)
	require.NotContains(t, got, `rocm_gpu_voltage_volts{rail="vddgfx"}`, "0 V is what the driver says of a rail that is not there")
	require.Equal(t, 52.693, got[`rocm_gpu_voltage_volts{rail="vddboard"}`])
	require.Equal(t, .812, got[`rocm_gpu_voltage_volts{rail="vddnb"}`])
}

func TestEmptyTableIsACountedError(t *testing.T) {
	files := sensors("edge", 40, 100)
	files["gpu_metrics"] = ""
	c, _ := cardOf(put(t, files))
	require.Equal(t, []Failure{{File: "gpu_metrics", Errno: "damaged"}}, c.read(true, newMemory()).Failures)
}
