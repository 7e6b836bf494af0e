package beacon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// GPUTags describes the GPUs of tasks for the tags.
type GPUTags struct {
	Runtime string   // rocm or cuda; "" if the worker is to have no GPUs
	Count   int      // 0: no GPU is available
	Archs   []string // gfx target of each GPU (gfx1100), "" if unknown
}

// Tags returns the operator's tags, then the tags of the GPUs: gpu, compute-runtime=rocm,
// rocm, gpu-count=N, and gfx=<target> for each different target in the GPUs' order. Each
// tag occurs once. A worker without any tag takes untagged steps of every team. So a worker
// that should have GPUs but has none gets gpu-count=0, which no step requires.
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

// Windows is the platform of a worker that describes its GPUs only by its tags.
const Windows = "windows"

// maxGPUs is far above the GPUs of any machine.
const maxGPUs = 1024

var gfxName = lazyregexp.New(`^gfx[0-9a-f]{3,8}$`)

// GPUsOf returns the GPUs that a worker's tags describe, as Tags writes them. The tags name
// each architecture once. So GPUs of several architectures beyond the first of each have an
// unknown one. A worker chooses its tags, and impossible ones describe no GPU.
func GPUsOf(tags []string) (g GPUTags) {
	for _, t := range tags {
		key, value, _ := strings.Cut(t, "=")
		switch {
		case key == "compute-runtime":
			g.Runtime = value
		case key == "gpu-count":
			if n, err := strconv.Atoi(value); err == nil && n >= 0 && n <= maxGPUs {
				g.Count = n
			}
		case key == "gfx" && gfxName().MatchString(value) && !slices.Contains(g.Archs, value):
			g.Archs = append(g.Archs, value)
		}
	}
	if g.Runtime == "" || g.Count == 0 || len(g.Archs) > g.Count {
		return GPUTags{}
	}
	rest := ""
	if len(g.Archs) == 1 {
		rest = g.Archs[0]
	}
	for len(g.Archs) < g.Count {
		g.Archs = append(g.Archs, rest)
	}
	return g
}
