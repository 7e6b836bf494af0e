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

func (nvidia) models() []knownModel { return nvidiaModels }

var nvidiaModels = []knownModel{
	{0x1eb8, anyRevision, "NVIDIA Tesla T4"},
	{0x20b0, anyRevision, "NVIDIA A100 SXM4 40GB"},
	{0x2204, anyRevision, "NVIDIA GeForce RTX 3090"},
	{0x2330, anyRevision, "NVIDIA H100 SXM5 80GB"},
	{0x2684, anyRevision, "NVIDIA GeForce RTX 4090"},
	{0x2704, anyRevision, "NVIDIA GeForce RTX 4080"},
}
