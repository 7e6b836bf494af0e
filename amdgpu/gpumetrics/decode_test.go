package gpumetrics

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func names() []string {
	all := slices.Collect(maps.Keys(declarations))
	all = slices.AppendSeq(all, maps.Keys(apuDeclarations))
	all = slices.DeleteFunc(all, func(n string) bool { return strings.HasPrefix(n, "xcp") })
	slices.Sort(all)
	return all
}

func decodeNamed(t *testing.T, name string, b []byte) map[string]float64 {
	t.Helper()
	f := Decode
	if name == "partition" {
		f = DecodePartition
	}
	r, values, err := f(b, nil)
	require.NoError(t, err)
	require.Equal(t, map[bool]string{true: "v1_0", false: name}[name == "partition"], r.String())
	return text(values)
}

// What the tables leave out on purpose: padding, what is not a measurement, and the
// throttle_status that v1_5 does not fill.
func leftOut(table, name string) bool {
	return strings.HasPrefix(name, "padding") || name == "time_filter_alphavalue" ||
		table == "v1_5" && name == "throttle_status"
}

// Every member of every structure is read at C's offset, and nothing more is.
func TestEveryMemberIsReadAtItsOffset(t *testing.T) {
	for _, name := range names() {
		t.Run(name, func(t *testing.T) {
			for i, m := range newTable(t, name).members {
				b := newTable(t, name)
				put(b.b[b.members[i].offset:], m.size, 1)
				got := decodeNamed(t, name, b.b)
				if leftOut(name, m.name) || len(got) == 0 {
					require.Empty(t, got, m.name)
					require.True(t, leftOut(name, m.name) || unclearIn(name, m.name), m.name)
					continue
				}
				require.Len(t, got, 1, m.name)
				key := text([]Value{{Field: fieldNamed(t, m.name), Partition: uint8(m.partition), Index: uint16(m.index)}})
				require.Equal(t, slices.Collect(maps.Keys(key)), slices.Collect(maps.Keys(got)))
			}
		})
	}
}

// unclearIn are the members with a unit that depends on the firmware.
func unclearIn(table, name string) bool {
	return name == "fan_pwm" || name == "pcie_bandwidth_inst" || strings.Contains(name, "ipu_activity") || strings.Contains(name, "c0_activity") ||
		strings.HasSuffix(name, "_power") && table < "v2_4" && table > "v2"
}

func fieldNamed(t *testing.T, name string) Field {
	i := slices.Index(fieldNames[:], name)
	require.GreaterOrEqual(t, i, 0, name)
	return Field(i)
}

func TestSizesEqualTheStructsOfC(t *testing.T) {
	want := map[string]int{"v1_0": 80, "v1_1": 96, "v1_2": 104, "v1_3": 120, "v1_4": 288, "v1_5": 360, "v1_6": 1664,
		"v1_7": 2208, "v1_8": 3872, "v2_0": 120, "v2_1": 120, "v2_2": 128, "v2_3": 152, "v2_4": 168, "v3_0": 264, "partition": 488}
	for _, name := range names() {
		b := newTable(t, name).b
		require.Len(t, b, want[name], name)
		l := layouts[Revision{b[2], b[3]}]
		if name == "partition" {
			l = partitionLayouts[Revision{b[2], b[3]}]
		}
		require.Equal(t, want[name], l.size, name)
	}
}

func TestUnavailableNumbersAreLeftOut(t *testing.T) {
	for _, name := range names() {
		require.Empty(t, decodeNamed(t, name, newTable(t, name).b), name)
	}
}

func TestValuesInBaseUnits(t *testing.T) {
	type set map[string]uint64
	for name, c := range map[string]struct {
		table string
		set   set
		want  map[string]float64
	}{
		"v1: whole degrees, percent, watts, 0.1 GT/s": {"v1_3",
			set{"temperature_edge": 51, "temperature_hbm[3]": 44, "average_gfx_activity": 97, "average_socket_power": 137,
				"current_uclk": 1249, "voltage_gfx": 905, "pcie_link_speed": 160, "pcie_link_width": 16, "current_fan_speed": 1180},
			map[string]float64{"temperature_edge": 51, "temperature_hbm[3]": 44, "average_gfx_activity": 0.97, "average_socket_power": 137,
				"current_uclk": 1249e6, "voltage_gfx": 0.905, "pcie_link_speed": 16e9, "pcie_link_width": 16, "current_fan_speed": 1180}},
		"v1_0: the link in bytes": {"v1_0", set{"pcie_link_width": 16, "pcie_link_speed": 80},
			map[string]float64{"pcie_link_width": 16, "pcie_link_speed": 8e9}},
		"v1_4: many dies": {"v1_4",
			set{"energy_accumulator": 3 << 16, "xgmi_read_data_acc[7]": 5, "pcie_bandwidth_inst": 21, "current_gfxclk[7]": 2100,
				"xgmi_link_speed": 32, "throttle_status": 0, "system_clock_counter": 2_000_000_000, "firmware_timestamp": 300_000_000},
			map[string]float64{"energy_accumulator": 3, "xgmi_read_data_acc[7]": 5120, "current_gfxclk[7]": 2.1e9,
				"xgmi_link_speed": 32e9, "throttle_status": 0, "system_clock_counter": 2, "firmware_timestamp": 3}},
		"v1_5: the throttle status that nobody fills is no value": {"v1_5", set{"throttle_status": 0, "jpeg_activity[31]": 5, "pcie_nak_rcvd_count_acc": 2},
			map[string]float64{"jpeg_activity[31]": 0.05, "pcie_nak_rcvd_count_acc": 2}},
		"v1_8: statistics by partition": {"v1_8",
			set{"gfx_busy_inst[7,6]": 80, "vcn_busy[0,3]": 1, "mem_max_bandwidth": 5325, "num_partition": 8, "xgmi_link_status[2]": 0},
			map[string]float64{"gfx_busy_inst[7,6]": 0.8, "vcn_busy[3]": 0.01, "mem_max_bandwidth": 5325e9, "num_partition": 8, "xgmi_link_status[2]": 0}},
		"v2: hundredths of degrees and of percent, and power that may be either": {"v2_1",
			set{"temperature_gfx": 4125, "average_gfx_activity": 7350, "average_socket_power": 3401, "current_fclk": 400},
			map[string]float64{"temperature_gfx": 41.25, "average_gfx_activity": 0.735, "current_fclk": 400e6}},
		"v2_4: milliwatts and rails": {"v2_4", set{"average_socket_power": 12500, "average_gfx_voltage": 810, "average_gfx_current": 2500},
			map[string]float64{"average_socket_power": 12.5, "average_gfx_voltage": 0.81, "average_gfx_current": 2.5}},
		"v3_0: hundredths, 32-bit milliwatts, memory traffic": {"v3_0",
			set{"temperature_skin": 3300, "average_socket_power": 54_000, "average_vcn_activity": 250, "average_dram_reads": 12},
			map[string]float64{"temperature_skin": 33, "average_socket_power": 54, "average_vcn_activity": 0.025, "average_dram_reads": 12e6}},
		"no sensor, no rail, no link: 0 is not a value": {"v1_3",
			set{"temperature_vrmem": 0, "voltage_mem": 0, "pcie_link_width": 0, "current_vclk1": 0, "average_socket_power": 0, "energy_accumulator": 0},
			map[string]float64{}},
		"idle is a value": {"v1_3", set{"average_gfx_activity": 0, "current_fan_speed": 0, "indep_throttle_status": 0},
			map[string]float64{"average_gfx_activity": 0, "current_fan_speed": 0, "indep_throttle_status": 0}},
		"RDNA3's energy of 32 ones in 64 bits is no value": {"v1_3", set{"energy_accumulator": 0xffffffff}, map[string]float64{}},
		"what the unit can't be is no value": {"v1_3",
			set{"temperature_edge": 0xfffe, "average_gfx_activity": 101, "average_socket_power": 60000, "pcie_link_width": 255},
			map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTable(t, c.table)
			for k, v := range c.set {
				b.set(k, v)
			}
			require.InDeltaMapValues(t, c.want, decodeNamed(t, c.table, b.b), 1e-9)
		})
	}
}

func TestBitMasksKeepAllBits(t *testing.T) {
	_, values, err := Decode(newTable(t, "v1_3").set("indep_throttle_status", 1<<57|1).b, nil)
	require.NoError(t, err)
	require.Equal(t, []Value{{Field: IndepThrottleStatus, Bits: 64, Raw: 1<<57 | 1, Value: 1<<57 + 1}}, values)
}

func TestTablesThatEndEarlyOrLate(t *testing.T) {
	b := newTable(t, "v1_3").set("temperature_edge", 51).set("indep_throttle_status", 0).b
	all := map[string]float64{"temperature_edge": 51, "indep_throttle_status": 0}
	require.Equal(t, all, decodeNamed(t, "v1_3", append(slices.Clone(b), make([]byte, 4096-len(b))...)), "filled up to a page")
	for n := range b {
		_, values, err := Decode(b[:n], nil)
		require.ErrorIs(t, err, errDamaged, n)
		require.Empty(t, values)
	}
	short := slices.Clone(b)
	short[0] = 112 // the structure reports that it ends before its last member
	require.Equal(t, map[string]float64{"temperature_edge": 51}, decodeNamed(t, "v1_3", short))
}

func TestUnknownRevisionsAreReportedAndSkipped(t *testing.T) {
	for name, b := range map[string][]byte{"v1_10": {8, 0, 1, 10, 0, 0, 0, 0}, "v2_5": {4, 0, 2, 5}, "v4_0": {4, 0, 4, 0}} {
		r, values, err := Decode(b, nil)
		require.ErrorIs(t, err, ErrUnknown)
		require.Equal(t, name, r.String())
		require.Empty(t, values)
	}
	_, _, err := DecodePartition([]byte{4, 0, 1, 3}, nil)
	require.ErrorIs(t, err, ErrUnknown, "gpu_metrics v1_3 is no partition table")
	_, _, err = Decode(make([]byte, 151), nil)
	require.ErrorIs(t, err, errDamaged, "zeros are no header")
}
