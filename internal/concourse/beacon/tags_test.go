package beacon

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// D43: the tags that pipelines ask for are the tags that GPU workers have.
func TestTags_D43(t *testing.T) {
	for name, tc := range map[string]struct {
		operator []string
		gpus     GPUTags
		want     []string
	}{
		"none":       {nil, GPUTags{}, nil},
		"operator's": {[]string{"b", "a", "b"}, GPUTags{}, []string{"b", "a"}},
		"one Radeon": {nil, GPUTags{"rocm", 1, []string{"gfx1100"}}, []string{"gpu", "compute-runtime=rocm", "rocm", "gpu-count=1", "gfx=gfx1100"}},
		"four of a kind": {[]string{"big", "rocm"}, GPUTags{"rocm", 4, []string{"gfx90a", "gfx90a", "gfx90a", "gfx90a"}},
			[]string{"big", "rocm", "gpu", "compute-runtime=rocm", "gpu-count=4", "gfx=gfx90a"}},
		"mixed":                     {nil, GPUTags{"rocm", 3, []string{"gfx1100", "gfx1030", "gfx1100"}}, []string{"gpu", "compute-runtime=rocm", "rocm", "gpu-count=3", "gfx=gfx1100", "gfx=gfx1030"}},
		"unknown arch":              {nil, GPUTags{"rocm", 1, []string{""}}, []string{"gpu", "compute-runtime=rocm", "rocm", "gpu-count=1"}},
		"NVIDIA":                    {nil, GPUTags{"cuda", 2, nil}, []string{"gpu", "compute-runtime=cuda", "cuda", "gpu-count=2"}},
		"asked for but none usable": {[]string{"a"}, GPUTags{Runtime: "rocm"}, []string{"a", "gpu-count=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			operator := append([]string(nil), tc.operator...)
			require.Equal(t, tc.want, Tags(operator, tc.gpus))
			require.Equal(t, tc.operator, operator, "the operator's list is left as it is")
		})
	}
}

func TestGPUsAreReadFromTheTagsThatDescribeThem(t *testing.T) {
	for name, tc := range map[string]struct {
		tags []string
		want GPUTags
	}{
		"none":                   {[]string{"windows", "big"}, GPUTags{}},
		"two of a kind":          {Tags([]string{"windows"}, GPUTags{"rocm", 2, []string{"gfx1201", "gfx1201"}}), GPUTags{"rocm", 2, []string{"gfx1201", "gfx1201"}}},
		"mixed":                  {Tags(nil, GPUTags{"rocm", 3, []string{"gfx1201", "gfx1100", "gfx1201"}}), GPUTags{"rocm", 3, []string{"gfx1201", "gfx1100", ""}}},
		"unknown":                {Tags(nil, GPUTags{"rocm", 1, []string{""}}), GPUTags{"rocm", 1, []string{""}}},
		"no GPU":                 {Tags(nil, GPUTags{Runtime: "rocm"}), GPUTags{}},
		"only architectures":     {[]string{"gfx=gfx1201"}, GPUTags{}},
		"too many":               {[]string{"compute-runtime=rocm", "gpu-count=100000000", "gfx=gfx1201"}, GPUTags{}},
		"more kinds than GPUs":   {[]string{"compute-runtime=rocm", "gpu-count=1", "gfx=gfx1201", "gfx=gfx1100"}, GPUTags{}},
		"no architecture's name": {[]string{"compute-runtime=rocm", "gpu-count=1", "gfx=<b>"}, GPUTags{"rocm", 1, []string{""}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, GPUsOf(tc.tags)) })
	}
}

func FuzzGPUsOf(f *testing.F) {
	f.Add("windows,gpu,compute-runtime=rocm,rocm,gpu-count=2,gfx=gfx1201")
	f.Fuzz(func(t *testing.T, text string) {
		g := GPUsOf(strings.Split(text, ","))
		require.Len(t, g.Archs, g.Count)
		require.LessOrEqual(t, g.Count, maxGPUs)
		if g.Count > 0 && slices.Index(g.Archs, "") != 0 {
			require.Equal(t, g.Count, GPUsOf(Tags(nil, g)).Count)
		}
	})
}
