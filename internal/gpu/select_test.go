package gpu_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// gpus makes n whole GPUs, and one more in two partitions when asked.
func gpus(n int, partitioned bool) (list []gpu.GPU) {
	for i := range n {
		list = append(list, gpu.GPU{Slot: gpu.Slot{PCI: fmt.Sprintf("0000:%02x:00.0", 3+i), UniqueID: fmt.Sprintf("%016x", 0xabc0+i)}})
	}
	if partitioned {
		list = append(list, gpu.GPU{Slot: gpu.Slot{PCI: "0001:c3:00.0", Partition: 0}}, gpu.GPU{Slot: gpu.Slot{PCI: "0001:c3:00.0", Partition: 1}})
	}
	return list
}

func TestSelectChooses(t *testing.T) {
	have := gpus(4, true)                 // indexes 0-3, and 4 and 5, which are one card
	have[4].UniqueID = "00000000000000ff" // a kernel that gives both the same
	for spec, want := range map[string][]int{
		"all": {0, 1, 2, 3, 4, 5}, "ALL": {0, 1, 2, 3, 4, 5}, "": {0, 1, 2, 3, 4, 5}, " all ": {0, 1, 2, 3, 4, 5},
		"0": {0}, "3": {3}, "00": {0}, "0,2": {0, 2}, "2,0": {0, 2}, " 0 ,\t2 ": {0, 2},
		"0-1": {0, 1}, "0,2-3": {0, 2, 3}, "1 - 2": {1, 2}, "5-5": {5},
		"0000:03:00.0": {0}, "04:00.0": {1}, "0001:C3:00.0": {4, 5},
		"GPU-000000000000abc2": {2}, "gpu-000000000000ABC3": {3}, "GPU-00000000000000ff": {4, 5},
		"0000:05:00.0,0,GPU-000000000000abc3": {0, 2, 3},
	} {
		t.Run(spec, func(t *testing.T) {
			chosen, problems := gpu.Select(have, spec)
			require.Empty(t, problems)
			var wanted []gpu.GPU
			for _, i := range want {
				wanted = append(wanted, have[i])
			}
			require.Equal(t, wanted, chosen)
		})
	}
}

// TestSelectNamesEveryProblem: D27 and D44, the predecessor accepted `-1` and
// `0,0` and counted ids that no GPU has.
func TestSelectNamesEveryProblem(t *testing.T) {
	const form = ` is not all, an index, a range such as 0-1, a PCI address or GPU-<unique id>`
	for spec, want := range map[string][]string{
		"3":                           {`"3" is not a GPU of this machine; it has 0, 1`},
		"-1":                          {`"-1" is negative; it has 0, 1`},
		"0,0":                         {`"0" names GPU 0, which "0" named before`},
		"0,0-1":                       {`"0-1" names GPU 0, which "0" named before`},
		"1,0000:04:00.0":              {`"0000:04:00.0" names GPU 1, which "1" named before`},
		"1-0":                         {`"1-0" runs backwards`},
		"0-7":                         {`"0-7" reaches beyond the GPUs of this machine; it has 0, 1`},
		"5-7":                         {`"5-7" is not a GPU of this machine; it has 0, 1`},
		"0-99999999999999999999999":   {`"0-99999999999999999999999" reaches beyond the GPUs of this machine; it has 0, 1`},
		"99999999999999999999999-8":   {`"99999999999999999999999-8" runs backwards`},
		"18446744073709551616":        {`"18446744073709551616" is not a GPU of this machine; it has 0, 1`},
		"0000:0a:00.0":                {`"0000:0a:00.0" is not a GPU of this machine; it has 0, 1`},
		"0000:zz:00.0":                {`"0000:zz:00.0" is not a PCI address such as 0000:03:00.0`},
		"GPU-00000000000000ff":        {`"GPU-00000000000000ff" is not a GPU of this machine; it has 0, 1`},
		"GPU-":                        {`"GPU-" is not a GPU of this machine; it has 0, 1`},
		"all,0":                       {`"all" cannot be combined with other entries`},
		"first":                       {`"first"` + form},
		"+1":                          {`"+1"` + form},
		"0x1":                         {`"0x1"` + form},
		"1.0":                         {`"1.0"` + form},
		"0-1-2":                       {`"0-1-2"` + form},
		"0;1":                         {`"0;1"` + form},
		"0\n1":                        {`"0\n1"` + form},
		"7,-2,x,1":                    {`"7" is not a GPU of this machine; it has 0, 1`, `"-2" is negative; it has 0, 1`, `"x"` + form},
		"0,,1":                        {"there is an empty entry; write indexes with one comma between them"},
		strings.Repeat("ü", 40) + "!": {`"` + strings.Repeat("ü", 30) + `..."` + form},
	} {
		t.Run(spec, func(t *testing.T) {
			for i := range want {
				want[i] = "gpu-device-ids: " + want[i]
			}
			chosen, problems := gpu.Select(gpus(2, false), spec)
			require.Nil(t, chosen)
			require.Equal(t, want, problems)
		})
	}
}

func TestSelectListsTheGPUs(t *testing.T) {
	_, problems := gpu.Select(nil, "0")
	require.Equal(t, []string{`gpu-device-ids: "0" is not a GPU of this machine; it has none`}, problems)
	_, problems = gpu.Select(gpus(64, false), "64")
	require.Equal(t, []string{`gpu-device-ids: "64" is not a GPU of this machine; it has 0-63`}, problems)
	chosen, problems := gpu.Select(nil, "all")
	require.Empty(t, problems, "that there is no GPU is another diagnosis")
	require.Empty(t, chosen)
}

func FuzzSelect(f *testing.F) {
	for _, seed := range []string{"all", "0,2-3", "0000:03:00.0", "GPU-000000000000abc0", "-1", "1-0", ",", "0-99999999999999999999", "03:00.0 , 1"} {
		f.Add(seed, 4)
	}
	f.Fuzz(func(t *testing.T, spec string, n int) {
		have := gpus(int(uint(n)%70), n%2 == 0)
		chosen, problems := gpu.Select(have, spec)
		require.True(t, len(chosen) == 0 || len(problems) == 0)
		require.LessOrEqual(t, len(problems), 1+strings.Count(spec, ","))
		last := -1
		for _, g := range chosen { // each once, in order
			i := last + 1
			for i < len(have) && have[i] != g {
				i++
			}
			require.Less(t, i, len(have))
			last = i
		}
		for _, p := range problems {
			require.True(t, strings.HasPrefix(p, "gpu-device-ids: "), p)
			require.NotContains(t, p, "\n")
			require.Less(t, len(p), 800)
		}
	})
}
