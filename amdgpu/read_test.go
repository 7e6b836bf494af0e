package amdgpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// basics are the values that every dashboard asks for.
type basics struct {
	Temperature, Power, Graphics, Memory, Used, Total Number
}

func basicsOf(s State) basics {
	return basics{s.Temperature.Now, s.Power.Now, s.Activity.Graphics, s.Activity.Memory, s.Memory.VRAM.Used, s.Memory.VRAM.Total}
}

func TestSourcesOfEachValue(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		want     basics
		sensors  map[string]float64
		failures []Failure
	}{
		"channels are told apart by label, not by number": {
			files: map[string]string{"hwmon/hwmon4/temp1_label": "mem\n", "hwmon/hwmon4/temp1_input": "70000\n",
				"hwmon/hwmon4/temp7_label": "edge\n", "hwmon/hwmon4/temp7_input": "41500\n"},
			want:    basics{Temperature: Known(41.5)},
			sensors: map[string]float64{"mem": 70, "edge": 41.5},
		},
		"a GPU without an edge sensor gives its junction": {
			files:   map[string]string{"hwmon/hwmon4/temp2_label": "junction\n", "hwmon/hwmon4/temp2_input": "68000\n"},
			want:    basics{Temperature: Known(68)},
			sensors: map[string]float64{"junction": 68},
		},
		"an edge sensor without a reading is passed over": {
			files: map[string]string{"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "0\n",
				"hwmon/hwmon4/temp2_label": "junction\n", "hwmon/hwmon4/temp2_input": "68000\n"},
			want:    basics{Temperature: Known(68)},
			sensors: map[string]float64{"junction": 68},
		},
		"an edge sensor that fails is not replaced": {
			files: map[string]string{"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input/x": "",
				"hwmon/hwmon4/temp2_label": "junction\n", "hwmon/hwmon4/temp2_input": "68000\n"},
			sensors:  map[string]float64{"junction": 68},
			failures: []Failure{{File: "temp1_input", Errno: "EISDIR"}},
		},
		"frost is a temperature": {
			files:   map[string]string{"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "-5000\n"},
			want:    basics{Temperature: Known(-5)},
			sensors: map[string]float64{"edge": -5},
		},
		"unlabelled channels and other labels are no temperature of the GPU": {
			files: map[string]string{"hwmon/hwmon4/temp1_input": "41000\n", "hwmon/hwmon4/temp3_label": "mem\n",
				"hwmon/hwmon4/temp3_input": "44000\n", "hwmon/hwmon4/tempx_label": "edge\n"},
			sensors: map[string]float64{"mem": 44},
		},
		"average power goes before the present draw": {
			files: map[string]string{"hwmon/hwmon4/power1_average": "31250000\n", "hwmon/hwmon4/power1_input": "90000000\n"},
			want:  basics{Power: Known(31.25)},
		},
		"present draw where there is no average": {
			files: map[string]string{"hwmon/hwmon4/power1_input": "90000000\n"},
			want:  basics{Power: Known(90)},
		},
		"no power is no value": {
			files: map[string]string{"hwmon/hwmon4/power1_average": "0\n", "hwmon/hwmon4/power1_input": "0\n"},
		},
		"idle and empty are values": {
			files: map[string]string{"gpu_busy_percent": "0\n", "mem_busy_percent": "0\n", "mem_info_vram_used": "0\n"},
			want:  basics{Graphics: Known(0), Memory: Known(0), Used: Known(0)},
		},
		"a firmware's all ones are no value": {
			files: map[string]string{"gpu_busy_percent": "65535\n", "mem_busy_percent": "4294967295\n",
				"mem_info_vram_total":      "18446744073709551615\n",
				"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "65535000\n",
				"hwmon/hwmon4/power1_average": "65535000000\n"},
			failures: []Failure{{File: "temp1_input", Errno: "range"}, {File: "gpu_busy_percent", Errno: "range"}, {File: "mem_busy_percent", Errno: "range"},
				{File: "mem_info_vram_total", Errno: "format"}, {File: "power1_average", Errno: "range"}},
		},
		"words are no value": {
			files:    map[string]string{"gpu_busy_percent": "Query currently inaccessible\n"},
			failures: []Failure{{File: "gpu_busy_percent", Errno: "format"}},
		},
		"an empty file is no value and no fault": {
			files: map[string]string{"gpu_busy_percent": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["hwmon/hwmon4/name"] = "amdgpu\n"
			s := first(t, c.files)
			require.Equal(t, c.want, basicsOf(s))
			require.Equal(t, c.failures, s.Failures)
			require.Equal(t, c.want != basics{} || len(c.sensors) > 0, s.Alive)
			if c.sensors == nil {
				c.sensors = map[string]float64{}
			}
			require.Equal(t, c.sensors, sensorsOf(s))
		})
	}
}

func TestSensorsOfOtherDriversAreNotTheGPUs(t *testing.T) {
	s := first(t, map[string]string{"hwmon/hwmon4/name": "nvme\n",
		"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "41000\n",
		"hwmon/hwmon4/power1_average": "31000000\n"})
	require.Equal(t, basics{}, basicsOf(s))
	require.Empty(t, s.Temperatures)
}

func TestSuspendedGPUIsNotWoken(t *testing.T) {
	for _, status := range []string{"suspended", "suspending"} {
		t.Run(status, func(t *testing.T) {
			root := exportertest.Put(t, map[string]string{"power/runtime_status": status + "\n", "vbios_version": "113-X\n"})
			trap(t, root, "gpu_busy_percent", "mem_busy_percent", "mem_info_vram_used", "mem_info_vram_total", "hwmon/hwmon4/name",
				"gpu_metrics", "ras/umc_err_count", "pp_dpm_sclk", "current_link_speed", "pcie_replay_count")
			r, _ := readerOf(t, root)
			s := r.Read()
			require.Equal(t, basics{}, basicsOf(s))
			require.True(t, s.Suspended())
			require.Empty(t, s.Failures)
			require.True(t, s.Alive)
			require.Equal(t, "113-X", s.Identity.VBIOS)
		})
	}
}

func TestGPUWithoutRuntimePowerManagementIsRead(t *testing.T) {
	for _, status := range []string{"active", "unsupported", ""} {
		s := first(t, map[string]string{"power/runtime_status": status + "\n", "gpu_busy_percent": "3\n"})
		require.Equal(t, basics{Graphics: Known(.03)}, basicsOf(s), status)
	}
}

func TestActivityWithoutASensorIsUnknown(t *testing.T) {
	for gfx, want := range map[string]Number{"gfx1013": {}, "gfx1103": Known(1)} {
		root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "100\n", "mem_info_vram_used": "7\n"})
		r := NewReader(Device{PCI: exportertest.PCI, Dir: dev, Own: dev, GFX: gfx}, Options{Root: string(root)})
		t.Cleanup(r.Close)
		require.Equal(t, want, r.Read().Activity.Graphics, gfx)
	}
}

func TestFilesThatClearOrSleepAreNotRead(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "3\n"})
	trap(t, root, "xgmi_error", "pcie_bw", "ras/xgmi_error")
	r, _ := readerOf(t, root)
	require.Empty(t, r.Read().Failures)
	require.Empty(t, r.Poll())
}

func TestIdentityPartitionReadsNoSensor(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"vbios_version": "113-X\n"})
	trap(t, root, "gpu_busy_percent", "gpu_metrics", "hwmon/hwmon4/name", "ras/umc_err_count")
	r, _ := readerOf(t, root)
	s := r.ReadPartition()
	require.Empty(t, s.Temperatures)
	require.Empty(t, s.Clocks)
	s.Temperatures, s.Clocks = nil, nil
	require.Equal(t, State{Identity: Identity{UUID: exportertest.PCI, VBIOS: "113-X"}, Alive: true}, s)
}

func TestRails(t *testing.T) {
	files := exportertest.Sensors("edge", 40, 100)
	for i, rail := range [][2]string{{"vddgfx", "0\n"}, {"vddboard", "52693\n"}, {"vddnb", "812\n"}} {
		files[fmt.Sprintf("hwmon/hwmon3/in%d_label", i)] = rail[0] + "\n"
		files[fmt.Sprintf("hwmon/hwmon3/in%d_input", i)] = rail[1]
	}
	s := first(t, files)
	require.Empty(t, s.Failures)
	// 0 V is what the driver reports of a rail that is not there.
	require.Equal(t, []Rail{{Name: "vddboard", Volts: 52.693}, {Name: "vddnb", Volts: .812}}, s.Rails)
}

func FuzzLabelFile(f *testing.F) {
	for _, s := range []string{"temp1_label", "temp12_label", "temp_label", "temp-1_label", "temp1_input", "temp999_label", "_label", "temp01_label", "in0_label"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		kind, n, ok := labelFile(name)
		if ok {
			require.LessOrEqual(t, n, 255)
			require.NotEmpty(t, kind)
			require.Equal(t, name, fmt.Sprintf("%s%d_label", kind, n))
		}
	})
}

// Some firmware answers 0 for its first seconds.
func TestPowerBecomesKnown(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"hwmon/hwmon3/name": "amdgpu\n", "hwmon/hwmon3/power1_average": "0\n"})
	r, _ := readerOf(t, root)
	require.Equal(t, Power{}, r.Read().Power)
	hosttest.Put(t, root, dev+"/hwmon/hwmon3/power1_average", "700000000\n")
	require.Equal(t, Power{Now: Known(700), Average: Known(700)}, r.Read().Power)
}

// All ones is what firmware answers that has no sensor.
func TestPowerOfAllOnesIsUnknown(t *testing.T) {
	files := exportertest.Sensors("edge", 40, 100)
	files["hwmon/hwmon3/power1_average"], files["hwmon/hwmon3/power1_input"] = "4294967295\n", "31000000\n"
	files["hwmon/hwmon3/power1_cap"], files["hwmon/hwmon3/power1_cap_max"] = "4294967295\n", "250000000\n"
	s := first(t, files)
	require.Equal(t, Power{Now: Known(31), Input: Known(31), CapMax: Known(250)}, s.Power)
	require.Empty(t, s.Failures, "it is no fault")
}
