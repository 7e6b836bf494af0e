package usage

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
)

// nvidiaNode is the prefix of NVIDIA's GPUs in /dev.
const nvidiaNode = "nvidia"

// vendorNode returns the node by which users of an NVIDIA GPU are found, "" if it is unknown. ok
// is false for other vendors: the DRM nodes of their GPUs identify users.
func vendorNode(root host.Root, d gpu.Slot) (node string, ok bool) {
	if d.Vendor != gpu.NVIDIA {
		return "", false
	}
	return nvidiagpu.Node(root, d.PCI), true
}
