package amdgpu

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/testutil/exportertest"
	"concourse-ci-machine/internal/testutil/hosttest"
)

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
			got := read(r).Activity
			check(got.Multimedia, tt.want)
			check(got.Graphics, tt.wantGraphics)
			hosttest.Put(t, root, dev+"/gpu_metrics", apuTable(tt.nextGFX, tt.nextMult))
			check(read(r).Activity.Multimedia, tt.wantNext)
		})
	}
}
