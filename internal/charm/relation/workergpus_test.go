package relation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWorkerTellsItsGPUsAndTheWebReadsThem(t *testing.T) {
	for name, c := range map[string]struct {
		gpus WorkerGPUs
		want map[string]string
	}{
		"none": {WorkerGPUs{}, map[string]string{"compute-runtime": "", "gpu-count": "", "gpu-archs": "", "gpu-sharing": "", "gpu-limit": "", "gpus": ""}},
		"shared": {WorkerGPUs{Runtime: "rocm", Count: 3, Archs: CountArchs([]string{"gfx942", "gfx90a", "gfx942"})},
			map[string]string{"compute-runtime": "rocm", "gpu-count": "3", "gpu-archs": "gfx942=2,gfx90a=1", "gpu-sharing": "shared", "gpu-limit": "", "gpus": ""}},
		"exclusive": {WorkerGPUs{Runtime: "rocm", Count: 2, Archs: CountArchs([]string{"", "gfx1100"}), Exclusive: true},
			map[string]string{"compute-runtime": "rocm", "gpu-count": "2", "gpu-archs": "gfx1100=1", "gpu-sharing": "exclusive", "gpu-limit": "none", "gpus": ""}},
		"limits itself": {WorkerGPUs{Runtime: "cuda", Count: 1, Exclusive: true, Limited: true},
			map[string]string{"compute-runtime": "cuda", "gpu-count": "1", "gpu-archs": "", "gpu-sharing": "exclusive", "gpu-limit": "own", "gpus": ""}},
	} {
		require.Equal(t, c.want, c.gpus.Bag(), name)
		got, problems := ParseWorkerGPUs(c.gpus.Bag())
		require.Empty(t, problems, name)
		require.Equal(t, c.gpus, got, name)
	}
}

func TestWrongGPUsOfAWorkerAreLeftOutAndNamed(t *testing.T) {
	for name, c := range map[string]struct {
		bag  map[string]string
		want WorkerGPUs
		say  string
	}{
		"no number":                {map[string]string{"compute-runtime": "x", "gpu-archs": "gfx942=1"}, WorkerGPUs{}, ""},
		"no such number":           {map[string]string{"gpu-count": "many"}, WorkerGPUs{}, `gpu-count: "many" is not a number of GPUs up to 1024`},
		"negative":                 {map[string]string{"gpu-count": "-1"}, WorkerGPUs{}, `gpu-count: "-1" is not a number of GPUs up to 1024`},
		"too many":                 {map[string]string{"gpu-count": "1025"}, WorkerGPUs{}, `gpu-count: "1025" is not a number of GPUs up to 1024`},
		"runtime":                  {map[string]string{"gpu-count": "1", "compute-runtime": "metal"}, WorkerGPUs{Count: 1}, `compute-runtime: "metal" is not one of rocm, cuda`},
		"sharing":                  {map[string]string{"gpu-count": "1", "gpu-sharing": "alone"}, WorkerGPUs{Count: 1}, `gpu-sharing: "alone" is not one of shared, exclusive`},
		"limit":                    {map[string]string{"gpu-count": "1", "gpu-sharing": "exclusive", "gpu-limit": "4"}, WorkerGPUs{Count: 1, Exclusive: true}, `gpu-limit: "4" is not one of own, none`},
		"a key of another version": {map[string]string{"gpu-count": "1", "gpu-wait": "60"}, WorkerGPUs{Count: 1}, ""},
		"limit alone":              {map[string]string{"gpu-count": "1", "gpu-limit": "own"}, WorkerGPUs{Count: 1}, ""},
		"no arch":                  {map[string]string{"gpu-count": "1", "gpu-archs": "gfx942\n=1"}, WorkerGPUs{Count: 1}, `gpu-archs: "gfx942\n=1" is not an architecture and a number of GPUs, such as gfx942=8`},
		"no count":                 {map[string]string{"gpu-count": "1", "gpu-archs": "gfx942"}, WorkerGPUs{Count: 1}, `gpu-archs: "gfx942" is not an architecture and a number of GPUs, such as gfx942=8`},
		"twice":                    {map[string]string{"gpu-count": "2", "gpu-archs": "gfx942=1,gfx942=1"}, WorkerGPUs{Count: 2}, `gpu-archs: "gfx942=1" is not an architecture and a number of GPUs, such as gfx942=8`},
		"more than all":            {map[string]string{"gpu-count": "2", "gpu-archs": "gfx942=2,gfx90a=1"}, WorkerGPUs{Count: 2}, `gpu-archs: 3 GPUs are more than the 2 of gpu-count`},
		"long":                     {map[string]string{"gpu-count": "2", "gpu-archs": strings.Repeat("gfx942=1,", 17)}, WorkerGPUs{Count: 2}, `gpu-archs: want at most 16 architectures`},
	} {
		got, problems := ParseWorkerGPUs(c.bag)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.say, strings.Join(problems, "; "), name)
	}
}

func FuzzParseWorkerGPUs(f *testing.F) {
	f.Add("rocm", "4", "gfx90a=2,gfx942=2", "exclusive", "own")
	f.Add("\n", "-0", "gfx=,=,,", "shared", "4")
	f.Fuzz(func(t *testing.T, runtime, count, archs, sharing, limit string) {
		g, problems := ParseWorkerGPUs(map[string]string{"compute-runtime": runtime, "gpu-count": count, "gpu-archs": archs, "gpu-sharing": sharing, "gpu-limit": limit})
		oneLine(t, problems...)
		if len(strings.Join(problems, "")) > 2000 {
			t.Errorf("a text of %d bytes", len(strings.Join(problems, "")))
		}
		again, problems := ParseWorkerGPUs(g.Bag())
		require.Equal(t, g, again)
		require.Empty(t, problems)
		sum := 0
		for _, a := range g.Archs {
			sum += a.GPUs
		}
		if g.Count < 0 || g.Count > maxGPUs || sum > g.Count || len(g.Archs) > maxArchs {
			t.Errorf("%+v", g)
		}
	})
}
