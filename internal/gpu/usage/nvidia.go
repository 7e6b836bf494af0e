package usage

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
)

// nvidiaNode is the prefix of NVIDIA's GPUs in /dev.
const nvidiaNode = "nvidia"

// vendorNode returns the node of a GPU whose DRM nodes do not identify users, "" if it is
// unknown. ok is false for all other GPUs.
func vendorNode(root host.Root, d gpu.Slot) (node string, ok bool) {
	if d.Vendor != gpu.NVIDIA {
		return "", false
	}
	return nvidiagpu.Node(root, d.PCI), true
}
