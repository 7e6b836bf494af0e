package concourse

import (
	"fmt"
	"slices"
)

// GPUTags is what tags say of the GPUs that tasks get.
type GPUTags struct {
	Runtime string   // rocm or cuda; "": the worker is to be none with GPUs
	Count   int      // 0: it has none
	Archs   []string // gfx target of each GPU (gfx1100), "" where it is not known
}

// Tags is the operator's tags, then those of the GPUs: gpu, compute-runtime=rocm,
// rocm, gpu-count=N and gfx=<target> for each different target in the GPUs'
// order. No tag is in it twice. A worker without any tag takes untagged steps of
// every team: one that is to have GPUs and has none keeps gpu-count=0, which no
// step asks for.
func Tags(operator []string, g GPUTags) []string {
	all := slices.Clone(operator)
	switch {
	case g.Count > 0:
		all = append(all, "gpu", "compute-runtime="+g.Runtime, g.Runtime, fmt.Sprintf("gpu-count=%d", g.Count))
		for _, a := range g.Archs {
			if a != "" {
				all = append(all, "gfx="+a)
			}
		}
	case g.Runtime != "":
		all = append(all, "gpu-count=0")
	}
	var tags []string
	for _, t := range all {
		if !slices.Contains(tags, t) {
			tags = append(tags, t)
		}
	}
	return tags
}
