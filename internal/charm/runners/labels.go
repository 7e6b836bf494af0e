package runners

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Labels returns the labels of a runner on this machine: rocm, the GPUs' architectures such
// as gfx942, and gpu-4 for four GPUs. It opens no GPU.
func Labels(r host.Root) ([]string, error) {
	inv, err := gpu.Discover(r)
	if err != nil {
		return nil, err
	}
	gpus := gpu.ForTasks(inv.GPUsOf(gpu.VendorWith(gpu.Kubernetes)))
	if len(gpus) == 0 {
		return nil, errors.New("cannot label a runner: this machine has no usable AMD GPU; see gpukit gpu list")
	}
	var archs []string
	for _, g := range gpus {
		if g.GFX != "" && !slices.Contains(archs, g.GFX) {
			archs = append(archs, g.GFX)
		}
	}
	slices.Sort(archs)
	labels := append([]string{"rocm"}, archs...)
	return append(labels, fmt.Sprintf("gpu-%d", len(gpus))), nil
}
