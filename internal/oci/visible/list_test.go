package visible

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
)

// cards is a spec of n GPUs with the names that cdi gives them.
func cards(n int) string {
	var devices []string
	for i := range n {
		slot := fmt.Sprintf("0000:%02x:00.0", 3+i)
		devices = append(devices, device(i, fmt.Sprint(i)), device(i, uniqueID(i)), device(i, slot))
	}
	return `{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[` + strings.Join(devices, ",") + `,{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/dri/x"}]}}]}`
}

func device(i int, name string) string {
	return fmt.Sprintf(`{"name":%q,"containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD%d"}]}}`, name, 128+i)
}

func uniqueID(i int) string { return fmt.Sprintf("GPU-%016x", 0x00a1b2c3d4e50000+i) }

// asked returns the indexes of the GPUs that a task gets of a unit's.
func asked(t testing.TB, spec string, unit []string, env ...string) (string, error) {
	t.Helper()
	s, err := cdispec.Decode("/x.json", []byte(spec))
	require.NoError(t, err)
	specs := []*cdispec.Spec{s}
	gpus, err := Find(specs, unit)
	require.NoError(t, err)
	own, err := SelectShared(gpus, []string{"AMD_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}, env, nil)
	names := []string{}
	for _, i := range own {
		require.NoError(t, Describe(gpus))
		names = append(names, gpus[i].names[0])
	}
	return strings.Join(names, " "), err
}

var unitAll = []string{"amd.com/gpu=all"}

func TestTaskNarrowsItsGPUs(t *testing.T) {
	for value, want := range map[string]string{
		"all": "0 1 2 3", "ALL": "0 1 2 3", " All ": "0 1 2 3",
		"none": "", "void": "", "": "", " ": "", "NONE": "",
		"0": "0", "3": "3", "00": "0", "0,2": "0 2", "2,0": "0 2", " 1 , 3 ": "1 3", "1,1": "1", "0-1,1": "0 1",
		"0-3": "0 1 2 3", "1 - 2": "1 2", "2-2": "2",
		"amd.com/gpu=0": "0", "amd.com/gpu=2, AMD.com/gpu=1": "1 2", "amd.com/gpu=0-1,3": "0 1 " +
			"3", "amd.com/gpu=all": "0 1 2 3", "amd.com/gpu=none": "",
		"GPU-00a1b2c3d4e50001": "1", "gpu-00A1B2C3D4E50001": "1",
		"0x00a1b2c3d4e50002": "2", "0xa1b2c3d4e50002": "2", "0XA1B2C3D4E50002": "2", "00a1b2c3d4e50003": "3", "a1b2c3d4e50003": "3",
		"0000:03:00.0": "0", "04:00.0": "1", "0000:06:00.0,0": "0 3",
		"GPU-00a1b2c3d4e50001,0,05:00.0": "0 1 2",
	} {
		got, err := asked(t, cards(4), unitAll, "A=b", "AMD_VISIBLE_DEVICES="+value)
		require.NoError(t, err, value)
		require.Equal(t, want, got, value)
	}
	got, err := asked(t, cards(4), unitAll, "AMD_VISIBLE=0", "X=AMD_VISIBLE_DEVICES=0")
	require.NoError(t, err)
	require.Equal(t, "0 1 2 3", got)
}

// Older kernels give all partitions of a GPU the id of the whole, which its first
// partition has as a name.
func TestIdOfAWholeGPUNamesAllItsPartitions(t *testing.T) {
	spec := strings.NewReplacer(`"GPU-00a1b2c3d4e50001"`, `"x"`, "0000:04:00.0", "0000:03:00.0-1").Replace(cards(3))
	for value, want := range map[string]string{"GPU-00a1b2c3d4e50000": "0 1", "0xa1b2c3d4e50000": "0 1",
		"0000:03:00.0": "0 1", "0": "0", "1": "1"} {
		got, err := asked(t, spec, unitAll, "AMD_VISIBLE_DEVICES="+value)
		require.NoError(t, err, value)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"0000:03:00.0-1", "03:00.0-1", "amd.com/gpu=0000:03:00.0-1"} {
		got, err := asked(t, spec, unitAll, "AMD_VISIBLE_DEVICES="+value)
		require.NoError(t, err, value)
		require.Equal(t, "1", got, value)
	}
	_, err := asked(t, spec, unitAll, "AMD_VISIBLE_DEVICES=0000:03:00.0-2")
	require.ErrorContains(t, err, `"0000:03:00.0-2" is not a GPU that this machine gives; there are: 0 (GPU-00a1b2c3d4e50000, 0000:03:00.0), 1 (x, 0000:03:00.0-1), 2 (GPU-`)
}

// AMD's runtime starts such tasks without a GPU and without a word (T3).
func TestUnknownAndMalformedValuesAreRefusedByName(t *testing.T) {
	const there = "there are: 0 (GPU-00a1b2c3d4e50000, 0000:03:00.0), 1 (GPU-00a1b2c3d4e50001, 0000:04:00.0)"
	unknown := " is not a GPU that this machine gives"
	for value, want := range map[string]string{
		"2": `"2"` + unknown, "0,7": `"7"` + unknown, "GPU-00a1b2c3d4e50009": `"GPU-00a1b2c3d4e50009"` + unknown,
		"0x1234": `"0x1234"` + unknown, "123456789abc": `"123456789abc"` + unknown, "0000:09:00.0": `"0000:09:00.0"` + unknown,
		"18446744073709551616": `"18446744073709551616"` + unknown, "GPU-": `"GPU-"` + unknown, "MIG-1": `"MIG-1"` + unknown,
		"0-2":         `"0-2" names GPUs that this machine does not give`,
		"5-9":         `"5-9" names GPUs that this machine does not give`,
		"1-0":         `"1-0" is a range that runs backwards`,
		"0,,1":        `"" is an empty entry`,
		"0,":          `"" is an empty entry`,
		"all,0":       `"all" can't be combined with others`,
		"0,none":      `"none" can't be combined with others`,
		"-1":          `"-1" is not an index`,
		"0-":          `"0-" is not an index`,
		"0--1":        `"0--1" is not an index`,
		"one":         `"one" is not an index`,
		"0;1":         `"0;1" is not an index`,
		"0 1":         `"0 1" is not an index`,
		"0x":          `"0x" is not an index`,
		"0\n1":        `"0\n1" is not an index`,
		"../kfd":      `"../kfd" is not an index`,
		"00:00:03:00": `"00:00:03:00" is not an index`,
	} {
		_, err := asked(t, cards(2), unitAll, "AMD_VISIBLE_DEVICES="+value)
		require.ErrorContains(t, err, "cannot give the task the GPUs of AMD_VISIBLE_DEVICES=", value)
		require.ErrorContains(t, err, want, value)
		require.ErrorContains(t, err, there, value)
	}
	_, err := asked(t, cards(2), unitAll, "AMD_VISIBLE_DEVICES="+strings.Repeat("0,", 3000))
	require.ErrorContains(t, err, `AMD_VISIBLE_DEVICES="0,0,0,0,0`)
	require.ErrorContains(t, err, "it has 6000 characters, more than 4096")
	require.Less(t, len(err.Error()), 400, "nobody's log is filled")
}

// AMD's runtime needs 10 s and 1.8 GiB for a range of 20 million.
func TestWorkDoesNotGrowWithANumber(t *testing.T) {
	s, err := cdispec.Decode("/x.json", []byte(cards(8)))
	require.NoError(t, err)
	specs := []*cdispec.Spec{s}
	gpus, err := Find(specs, unitAll)
	require.NoError(t, err)
	require.NoError(t, Describe(gpus))
	work := func(value string) float64 {
		return testing.AllocsPerRun(10, func() {
			_, err := pickList(gpus, value)
			require.Error(t, err)
		})
	}
	require.Len(t, gpus, 8)
	require.InDelta(t, work("0-9"), work("0-2000000000"), 5)
	require.InDelta(t, work("0-9"), work("0-99999999999999999999"), 5)
}

// V6: the unit's own choice of GPUs is the limit.
func TestTaskNeverGetsMoreThanItsUnitGives(t *testing.T) {
	unit := []string{"amd.com/gpu=GPU-00a1b2c3d4e50001", "amd.com/gpu=3"}
	for value, want := range map[string]string{"all": "1 3", "1": "1", "1,3": "1 3",
		"GPU-00a1b2c3d4e50003": "3"} {
		got, err := asked(t, cards(4), unit, "AMD_VISIBLE_DEVICES="+value)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, value := range []string{"0", "0-3", "03:00.0", "GPU-00a1b2c3d4e50000", "2"} {
		_, err := asked(t, cards(4), unit, "AMD_VISIBLE_DEVICES="+value)
		require.ErrorContains(t, err, "there are: 1 (GPU-00a1b2c3d4e50001, 0000:04:00.0), 3 "+
			"(GPU-00a1b2c3d4e50003, 0000:06:00.0)")
	}
}

func TestAllVariablesNarrowAndTheLastOfANameCounts(t *testing.T) {
	got, err := asked(t, cards(4), unitAll, "NVIDIA_VISIBLE_DEVICES=1-2", "AMD_VISIBLE_DEVICES=0",
		"AMD_VISIBLE_DEVICES=2,3")
	require.NoError(t, err)
	require.Equal(t, "2", got)
	got, err = asked(t, cards(4), unitAll, "NVIDIA_VISIBLE_DEVICES=1", "AMD_VISIBLE_DEVICES=0")
	require.NoError(t, err)
	require.Empty(t, got)
	got, err = asked(t, cards(4), unitAll, "NVIDIA_VISIBLE_DEVICES=all", "AMD_VISIBLE_DEVICES=0")
	require.NoError(t, err)
	require.Equal(t, "0", got)
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"all", "0,1-3", "GPU-00a1b2c3d4e50001", "0xA1", "0000:03:00.0", "03:00.0-1",
		"0-2000000000", " , ", "void"} {
		f.Add(s)
	}
	s, err := cdispec.Decode("/x.json", []byte(cards(4)))
	require.NoError(f, err)
	specs := []*cdispec.Spec{s}
	gpus, err := Find(specs, []string{"amd.com/gpu=1", "amd.com/gpu=2"})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, value string) {
		own, _, err := narrow(gpus, []string{"V"}, []string{"V=" + value})
		if err != nil && (own != nil || !strings.Contains(err.Error(), "there are: 1 (")) {
			t.Fatalf("%v %v", own, err)
		}
		if err != nil && (strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) ||
			len(err.Error()) > 1000) {
			t.Fatalf("%q", err)
		}
		if !slices.IsSorted(own) || len(own) > len(gpus) || slices.ContainsFunc(own, func(i int) bool { return i < 0 || i > 1 }) {
			t.Fatalf("%q gives %v", value, own)
		}
	})
}
