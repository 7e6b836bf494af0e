package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/testutil/hosttest"
)

// A GPU whose architecture the kernel does not tell: the unit says so and what to
// set, and no task is told an architecture that somebody guessed. The GPUs are
// there all the same, and the worker's tags are the GPUs' own in any case.
func TestUnknownArchitectureIsAnErrorAndNeverAGuess(t *testing.T) {
	const cause = "hip-arches: the kernel does not tell the architecture of 1 of the 4 GPUs of tasks; set the option to what tasks shall build for, such as gfx942"
	for name, c := range map[string]struct {
		set    map[string]any
		causes []status.Cause
		arches string
	}{
		"nobody says":        {nil, []status.Cause{{Kind: status.Blocked, Text: cause}}, ""},
		"the option says":    {map[string]any{"hip-arches": "gfx90a,gfx942"}, nil, "gfx90a,gfx942"},
		"task-env says":      {map[string]any{"task-env": "HIP_ARCHES=gfx90a"}, nil, "gfx90a"},
		"as far as it knows": {map[string]any{"hsa-override-gfx-version": "auto"}, []status.Cause{{Kind: status.Blocked, Text: cause}}, ""},
	} {
		set := map[string]any{"compute-runtime": "rocm"}
		for k, v := range c.set {
			set[k] = v
		}
		o := observed(t, hosttest.Host(t, "mi210x4"), set)
		o.GPUs.GPUs = append([]gpu.GPU(nil), o.GPUs.GPUs...)
		for i, g := range o.GPUs.GPUs {
			if g.Vendor == gpu.AMD {
				o.GPUs.GPUs[i].GFX = ""
				break
			}
		}
		d := Desire(o, nil)
		require.Equal(t, c.causes, d.Causes, name)
		require.Equal(t, c.arches, wrapperOf(t, d).Env["HIP_ARCHES"], name)
		require.Len(t, wrapperOf(t, d).Devices, 4, name)
		require.Equal(t, "gpu,compute-runtime=rocm,rocm,gpu-count=4,gfx=gfx90a", env(t, d)["CONCOURSE_TAG"], name)
		require.Equal(t, "gfx90a=3", d.GPUs.Databag()["gpu-archs"], name)
	}
}
