package amdgpu

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	gm "github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// numbers is a table of the given size and revision with 16-bit numbers at places.
func numbers(size int, format, content byte, at map[int]uint16) string {
	b := make([]byte, size)
	binary.LittleEndian.PutUint16(b, uint16(size))
	b[2], b[3] = format, content
	for place, n := range at {
		binary.LittleEndian.PutUint16(b[place:], n)
	}
	return string(b)
}

func TestUnreadableTablesAreCountedAndOtherValuesRemain(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "gpu_metrics": "\x08\x00\x04\x02----"})
	r, _ := readerOf(t, root)
	before := r.Read()
	s := r.Read()
	require.Equal(t, []UnknownTable{{File: "gpu_metrics", Revision: "v4_2", Readings: 2}}, s.Table.Unknown)
	require.Equal(t, 1.0, before.Table.Unknown[0].Readings, "what was handed over stays as it is")
	require.Nil(t, s.Table.Revision)
	require.Equal(t, Known(.05), s.Activity.Graphics)
	hosttest.Put(t, root, dev+"/gpu_metrics", "\x00\x00\x00\x00")
	s = r.Read()
	require.Equal(t, []Failure{{File: "gpu_metrics", Errno: "damaged"}}, s.Failures)
	require.Equal(t, Known(.05), s.Activity.Graphics)
}

func TestEmptyTableIsACountedError(t *testing.T) {
	files := exportertest.Sensors("edge", 40, 100)
	files["gpu_metrics"] = ""
	require.Equal(t, []Failure{{File: "gpu_metrics", Errno: "damaged"}}, first(t, files).Failures)
}

// The header gives the unit of the counter for MI200 and MI300 only.
func TestEnergyIsReportedIfItsUnitIsKnown(t *testing.T) {
	for name, tt := range map[string]struct {
		gfx      string
		revision gm.Revision
		want     bool
	}{
		"MI200":                     {"gfx90a", gm.Revision{Format: 1, Content: 3}, true},
		"MI300":                     {"gfx942", gm.Revision{Format: 1, Content: 4}, true},
		"MI100":                     {"gfx908", gm.Revision{Format: 1, Content: 1}, false},
		"RDNA 3, of the same table": {"gfx1100", gm.Revision{Format: 1, Content: 3}, false},
		"an APU of another format":  {"gfx1103", gm.Revision{Format: 2, Content: 4}, false},
	} {
		r := &Reader{device: Device{GFX: tt.gfx}}
		require.Equal(t, tt.want, r.energyKnown(gm.Value{Raw: 1}, tt.revision), name)
		require.False(t, r.energyKnown(gm.Value{}, tt.revision), "of a second die")
	}
}

func TestEnergyFallsOnlyWithANewCounter(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"})
	r := NewReader(Device{PCI: exportertest.PCI, Dir: dev, Own: dev, GFX: "gfx90a"}, Options{Root: string(root)})
	t.Cleanup(r.Close)
	for _, c := range []struct{ counter, want uint64 }{{5e6, 5e6}, {5e6 - 1, 5e6}, {5e6 + 1, 5e6 + 1}, {3, 3}, {9, 9}} {
		table := []byte(numbers(120, 1, 3, nil))
		binary.LittleEndian.PutUint64(table[24:], c.counter<<16)
		hosttest.Put(t, root, dev+"/gpu_metrics", string(table))
		require.Equal(t, Known(float64(c.want)), r.Read().Power.Energy)
	}
}

// Of the same engine gpu_metrics goes first, and xcp_metrics has the others.
func TestPartitionTableAddsMissingValues(t *testing.T) {
	xcp := numbers(488, 1, 0, map[int]uint16{4: 1300, 48: 7, 160: 9}) // gfx clock, gfx and vcn busy
	b := []byte(xcp)
	binary.LittleEndian.PutUint64(b[232:], 55) // GFXBelowHostLimitPPTAcc
	for i := 1; i < 8; i++ {
		binary.LittleEndian.PutUint32(b[48+4*i:], 0xffffffff)
		binary.LittleEndian.PutUint64(b[232+8*i:], 1<<64-1)
	}
	gpu := numbers(360, 1, 5, map[int]uint16{16: 30}) // vcn activity
	s := first(t, map[string]string{"gpu_busy_percent": "5\n", "gpu_metrics": gpu, "xcp/xcp_metrics": string(b)})
	busy := func(kind string) (out []float64) {
		for _, e := range s.Activity.Engines {
			if e.Kind == kind && e.Instance == 0 {
				out = append(out, e.Busy)
			}
		}
		return out
	}
	require.Equal(t, []float64{.30}, busy("vcn"), "once, and as the GPU's table has it")
	require.Equal(t, []float64{.07}, busy("gfx"))
	require.Contains(t, s.Throttling.Limited, Limited{Reason: "ppt", Sum: 55})
	require.Contains(t, s.Clocks, Clock{Domain: "gfx", Instance: 0, Hertz: 1.3e9})
}

// A table that repeats itself must not become series that are there twice.
func TestRepeatedAttributeIsReadOnce(t *testing.T) {
	attribute := func(id int, v uint64) exportertest.Attribute {
		return exportertest.Attribute{ID: id, Values: []uint64{v}}
	}
	s := first(t, map[string]string{"gpu_metrics": exportertest.Table(attribute(40, 10), attribute(40, 20), // busy time
		attribute(11, 1), attribute(11, 2), attribute(44, 3), attribute(44, 4), attribute(1, 50), attribute(1, 60))})
	require.Equal(t, []Engine{{Kind: "gfx", Instance: 0, Partition: 0, Busy: .10}}, s.Activity.Engines)
	require.Equal(t, []Residency{{Reason: "ppt", Ticks: 1}}, s.Throttling.Residency)
	require.Equal(t, []Limited{{Reason: "ppt", Instance: 0, Partition: 0, Sum: 3}}, s.Throttling.Limited)
	require.Equal(t, map[string]float64{"mem": 50}, sensorsOf(s))
}

// Numbers of a table are only of the moment, so a reading is as it was once another
// one is made.
func TestReadingIsNotChangedByTheNext(t *testing.T) {
	files := exportertest.Sensors("edge", 40, 100, "junction", 50, 110)
	files["ras/umc_err_count"], files["pp_dpm_sclk"], files["gpu_metrics"] = "ue: 0\nce: 1\n", "0: 500Mhz *\n1: 2000Mhz\n", bitsTable(1<<36)
	root := exportertest.Put(t, files)
	r, _ := readerOf(t, root)
	s := r.Read()
	want := []any{sensorsOf(s), activeOf(s), s.RAS.Blocks[0], s.ClockRanges[0], *s.RAS.Errors, *s.Table.Revision}
	for name, text := range map[string]string{"hwmon/hwmon3/temp1_input": "70000\n", "hwmon/hwmon3/temp2_input": "109000\n",
		"ras/umc_err_count": "ue: 1\nce: 2\n", "pp_dpm_sclk": "0: 600Mhz *\n1: 2100Mhz\n", "gpu_metrics": apuTable(1, 1)} {
		hosttest.Put(t, root, dev+"/"+name, text)
	}
	r.Poll()
	next := r.Read()
	require.Equal(t, 70.0, next.Temperature.Now.Value)
	require.Equal(t, uint64(1), next.RAS.Errors.Uncorrectable)
	require.Equal(t, want, []any{sensorsOf(s), activeOf(s), s.RAS.Blocks[0], s.ClockRanges[0], *s.RAS.Errors, *s.Table.Revision})
}

// A table of a Strix: the graphics' share of the package's power, and traffic of its memory.
func TestAPUReportsItsSharesOfPowerAndMemory(t *testing.T) {
	b := []byte(numbers(264, 3, 0, map[int]uint16{94: 2504, 96: 637, 98: 12, 100: 3, 116: 450, 180: 800}))
	binary.LittleEndian.PutUint32(b[112:], 9800)
	binary.LittleEndian.PutUint32(b[124:], 1500)
	s := first(t, map[string]string{"gpu_busy_percent": "5\n", "gpu_metrics": string(b)})
	require.Equal(t, Power{Now: Known(9.8), Graphics: Known(1.5), NPU: Known(.45)}, s.Power)
	require.Equal(t, []Traffic{{Scope: "package", Direction: "read", Bytes: 2504e6}, {Scope: "package", Direction: "write", Bytes: 637e6}, {Scope: "npu", Direction: "read", Bytes: 12e6}, {Scope: "npu", Direction: "write", Bytes: 3e6}}, s.Memory.Traffic)
	require.Contains(t, s.Clocks, Clock{Domain: "npu", Instance: 0, Hertz: 800e6})
}

// apuTable is a gpu_metrics v2_1 with its two activities.
func apuTable(gfx, multimedia uint16) string {
	b := make([]byte, 120)
	binary.LittleEndian.PutUint16(b, 120)
	b[2], b[3] = 2, 1
	binary.LittleEndian.PutUint16(b[28:], gfx)
	binary.LittleEndian.PutUint16(b[30:], multimedia)
	return string(b)
}

func TestActivitiesOfAnAPUAreReadInTheirFirmwaresUnit(t *testing.T) {
	for name, tt := range map[string]struct {
		busy              string // gpu_busy_percent
		gfx, multimedia   uint16
		want              any // of multimedia, nil for none
		wantGraphics      any
		nextGFX, nextMult uint16 // of a second reading
		wantNext          any
	}{
		"gpu_busy_percent says percent":           {"50\n", 50, 40, .40, .50, 5, 4, .04},
		"gpu_busy_percent says hundredths":        {"50\n", 5000, 40, .004, .50, 5000, 80, .008},
		"a small one, in hundredths":              {"3\n", 310, 90, .009, .03, 0, 0, 0.0},
		"only hundredths can be more than 100":    {"", 7350, 40, .004, .735, 20, 40, .004},
		"nothing tells":                           {"", 50, 40, nil, nil, 50, 40, nil},
		"too idle to tell, and busy later":        {"1\n", 1, 40, nil, .01, 900, 40, .004},
		"busy came after gpu_busy_percent":        {"6\n", 30, 40, nil, .06, 6, 4, .04},
		"taken for percent, and then beyond it":   {"50\n", 50, 40, .40, .50, 5000, 40, .004},
		"0 is the same in both":                   {"", 0, 0, 0.0, 0.0, 0, 0, 0.0},
		"100 is more likely all than a hundredth": {"100\n", 100, 100, 1.0, 1.0, 100, 100, 1.0},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"gpu_metrics": apuTable(tt.gfx, tt.multimedia), "mem_info_vram_used": "1\n"}
			if tt.busy != "" {
				files["gpu_busy_percent"] = tt.busy
			}
			root := exportertest.Put(t, files)
			r, _ := readerOf(t, root)
			check := func(got Number, want any) {
				t.Helper()
				if want == nil {
					require.Equal(t, Number{}, got)
					return
				}
				require.True(t, got.Known)
				require.InDelta(t, want, got.Value, 1e-9)
			}
			got := r.Read().Activity
			check(got.Multimedia, tt.want)
			check(got.Graphics, tt.wantGraphics)
			hosttest.Put(t, root, dev+"/gpu_metrics", apuTable(tt.nextGFX, tt.nextMult))
			check(r.Read().Activity.Multimedia, tt.wantNext)
		})
	}
}
