package exporter

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
)

func sampleOf(r host.Root, live bool) Sample {
	c := newCard(newCollector(r), Device{PCI: "0000:03:00.0", Dir: dev, Own: dev}, "")
	return c.read(live, new([]expo.Sample))
}

func newCollector(r host.Root) *Collector {
	c := NewCollector(r, one, "v0.0.0-test", Options{RASInterval: time.Minute})
	c.now = func() time.Time { return hosttest.Now }
	return c
}

// valuesOf are the values under the contract's own names.
func valuesOf(s Sample) map[metric]float64 {
	v := map[metric]float64{}
	for _, r := range s.Values {
		if r.Series.ID <= power {
			v[r.Series.ID] = r.Value
		}
	}
	return v
}

// allOf are all values, by series without the labels that all have.
func allOf(s Sample) map[string]float64 {
	v := map[string]float64{}
	for _, r := range s.Values {
		head := strings.NewReplacer("{,", "{", "{}", "", " ", "").Replace(common.ReplaceAllString(r.Series.Head, ""))
		v[head] = r.Value
	}
	return v
}

var common = regexp.MustCompile(`,?\b(gpu|pci_bus_id|uuid)="[^"]*"`)

func TestSourcesOfEachValue(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		want     map[metric]float64
		other    map[string]float64 // values under other names
		failures []Failure
	}{
		"channels are told apart by label, not by number": {
			files: map[string]string{"hwmon/hwmon4/temp1_label": "mem\n", "hwmon/hwmon4/temp1_input": "70000\n",
				"hwmon/hwmon4/temp7_label": "edge\n", "hwmon/hwmon4/temp7_input": "41500\n"},
			want: map[metric]float64{temperature: 41.5},
		},
		"a GPU without an edge sensor gives its junction": {
			files: map[string]string{"hwmon/hwmon4/temp2_label": "junction\n", "hwmon/hwmon4/temp2_input": "68000\n"},
			want:  map[metric]float64{temperature: 68},
		},
		"an edge sensor without a reading is passed over": {
			files: map[string]string{"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "0\n",
				"hwmon/hwmon4/temp2_label": "junction\n", "hwmon/hwmon4/temp2_input": "68000\n"},
			want: map[metric]float64{temperature: 68},
		},
		"an edge sensor that fails is not replaced": {
			files: map[string]string{"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input/x": "",
				"hwmon/hwmon4/temp2_label": "junction\n", "hwmon/hwmon4/temp2_input": "68000\n"},
			want:     map[metric]float64{},
			other:    map[string]float64{`rocm_gpu_temperature_celsius{sensor="junction"}`: 68},
			failures: []Failure{{"temp1_input", "EISDIR"}},
		},
		"frost is a temperature": {
			files: map[string]string{"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "-5000\n"},
			want:  map[metric]float64{temperature: -5},
		},
		"unlabelled channels and other labels are no temperature of the GPU": {
			files: map[string]string{"hwmon/hwmon4/temp1_input": "41000\n", "hwmon/hwmon4/temp3_label": "mem\n",
				"hwmon/hwmon4/temp3_input": "44000\n", "hwmon/hwmon4/tempx_label": "edge\n"},
			want:  map[metric]float64{},
			other: map[string]float64{`rocm_gpu_temperature_celsius{sensor="mem"}`: 44},
		},
		"average power goes before the present draw": {
			files: map[string]string{"hwmon/hwmon4/power1_average": "31250000\n", "hwmon/hwmon4/power1_input": "90000000\n"},
			want:  map[metric]float64{power: 31.25},
		},
		"present draw where there is no average": {
			files: map[string]string{"hwmon/hwmon4/power1_input": "90000000\n"},
			want:  map[metric]float64{power: 90},
		},
		"no power is no value": {
			files: map[string]string{"hwmon/hwmon4/power1_average": "0\n", "hwmon/hwmon4/power1_input": "0\n"},
			want:  map[metric]float64{},
		},
		"idle and empty are values": {
			files: map[string]string{"gpu_busy_percent": "0\n", "mem_busy_percent": "0\n", "mem_info_vram_used": "0\n"},
			want:  map[metric]float64{utilization: 0, memoryUtilization: 0, memoryUsed: 0},
		},
		"a firmware's all ones are no value": {
			files: map[string]string{"gpu_busy_percent": "65535\n", "mem_busy_percent": "4294967295\n",
				"mem_info_vram_total":      "18446744073709551615\n",
				"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "65535000\n",
				"hwmon/hwmon4/power1_average": "65535000000\n"},
			want: map[metric]float64{},
			failures: []Failure{{"temp1_input", "range"}, {"gpu_busy_percent", "range"}, {"mem_busy_percent", "range"},
				{"mem_info_vram_total", "format"}, {"power1_average", "range"}},
		},
		"words are no value": {
			files:    map[string]string{"gpu_busy_percent": "Query currently inaccessible\n"},
			want:     map[metric]float64{},
			failures: []Failure{{"gpu_busy_percent", "format"}},
		},
		"an empty file is no value and no fault": {
			files: map[string]string{"gpu_busy_percent": ""},
			want:  map[metric]float64{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["hwmon/hwmon4/name"] = "amdgpu\n"
			s := sampleOf(put(t, c.files), true)
			require.Equal(t, c.want, valuesOf(s))
			require.Equal(t, c.failures, s.Failures)
			require.Equal(t, len(c.want)+len(c.other) > 0, s.Alive)
			for name, v := range c.other {
				require.Equal(t, v, allOf(s)[name], name)
			}
		})
	}
}

func TestSensorsOfOtherDriversAreNotTheGPUs(t *testing.T) {
	s := sampleOf(put(t, map[string]string{"hwmon/hwmon4/name": "nvme\n",
		"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "41000\n",
		"hwmon/hwmon4/power1_average": "31000000\n"}), true)
	require.Empty(t, valuesOf(s))
}

// trap makes directories of the given names: to read one fails with EISDIR,
// which a sample would show.
func trap(t *testing.T, r host.Root, names ...string) {
	for _, name := range names {
		require.NoError(t, os.MkdirAll(r.Path(dev+"/"+name), 0o755))
	}
}

func TestSuspendedGPUIsNotWoken(t *testing.T) {
	for _, status := range []string{"suspended", "suspending"} {
		t.Run(status, func(t *testing.T) {
			r := put(t, map[string]string{"power/runtime_status": status + "\n", "vbios_version": "113-X\n"})
			trap(t, r, "gpu_busy_percent", "mem_busy_percent", "mem_info_vram_used", "mem_info_vram_total", "hwmon/hwmon4/name",
				"gpu_metrics", "ras/umc_err_count", "pp_dpm_sclk", "current_link_speed", "pcie_replay_count")
			s := sampleOf(r, true)
			require.Empty(t, valuesOf(s))
			require.Equal(t, 1.0, allOf(s)["rocm_gpu_suspended"])
			require.Empty(t, s.Failures)
			require.True(t, s.Alive)
			require.Equal(t, "113-X", s.Identity.VBIOS)
		})
	}
}

func TestGPUWithoutRuntimePowerManagementIsRead(t *testing.T) {
	for _, status := range []string{"active", "unsupported", ""} {
		s := sampleOf(put(t, map[string]string{"power/runtime_status": status + "\n", "gpu_busy_percent": "3\n"}), true)
		require.Equal(t, map[metric]float64{utilization: 3}, valuesOf(s), status)
	}
}

func TestFilesThatClearOrSleepAreNotRead(t *testing.T) {
	r := put(t, map[string]string{"gpu_busy_percent": "3\n"})
	trap(t, r, "xgmi_error", "pcie_bw", "ras/xgmi_error")
	require.Empty(t, sampleOf(r, true).Failures)
}

func TestIdentityPartitionReadsNoSensor(t *testing.T) {
	r := put(t, map[string]string{"vbios_version": "113-X\n"})
	trap(t, r, "gpu_busy_percent", "gpu_metrics", "hwmon/hwmon4/name", "ras/umc_err_count")
	s := sampleOf(r, false)
	require.Empty(t, s.Values)
	require.Empty(t, s.Failures)
	require.True(t, s.Alive)
}

func TestUUID(t *testing.T) {
	for name, c := range map[string]struct {
		device Device
		serial string
		want   string
	}{
		"unique id, as HIP has it":          {Device{PCI: "0000:03:00.0", UniqueID: "4be2f10c93d57a68"}, "692", "GPU-4be2f10c93d57a68"},
		"else the serial number":            {Device{PCI: "0000:03:00.0"}, "692", "692"},
		"else the slot":                     {Device{PCI: "0000:03:00.0"}, "", "0000:03:00.0"},
		"partitions do not share a name":    {Device{PCI: "0000:03:00.0", Partition: 2}, "692", "0000:03:00.0/2"},
		"a partition with an id of its own": {Device{PCI: "0000:03:00.0", Partition: 2, UniqueID: "1d00c4a87e3f956f"}, "692", "GPU-1d00c4a87e3f956f"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, uuid(c.device, c.serial)) })
	}
}
