package gpu

import "github.com/fourdollars/concourse-ci-machine/internal/base/host"

// NVIDIA is the vendor of GPUs with CUDA.
const NVIDIA Vendor = "nvidia"

// NVIDIAKind and NVIDIASpec are the kind and the file of the description that NVIDIA's tool
// writes.
const (
	NVIDIAKind = "nvidia.com/gpu"
	NVIDIASpec = "/etc/cdi/nvidia.json"
)

type nvidia struct{}

func (nvidia) traits() *Traits { return &nvidiaTraits }

var nvidiaTraits = Traits{Label: "NVIDIA", Runtime: "cuda", PCI: 0x10de, Module: "nvidia",
	Drivers: map[string]string{"nvidia": "nvidia-drm", "nouveau": "nouveau"},
	Kind:    NVIDIAKind, Spec: NVIDIASpec, Visible: "NVIDIA_VISIBLE_DEVICES"}

// identify reads nothing: name and id need NVIDIA's library.
func (nvidia) identify(files, *GPU) {}

func (nvidia) complete(*discovery) {}

// readNames reads nothing: pci.ids has the names of NVIDIA's models.
func (nvidia) readNames(host.Root, names) {}

// model returns the name of a common model.
func (nvidia) model(device uint16, _ uint8) string {
	return map[uint16]string{
		0x1eb8: "NVIDIA Tesla T4",
		0x20b0: "NVIDIA A100 SXM4 40GB",
		0x2204: "NVIDIA GeForce RTX 3090",
		0x2330: "NVIDIA H100 SXM5 80GB",
		0x2684: "NVIDIA GeForce RTX 4090",
		0x2704: "NVIDIA GeForce RTX 4080",
	}[device]
}
