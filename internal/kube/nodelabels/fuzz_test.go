package nodelabels_test

import (
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Whatever names a card and its driver have, Kubernetes accepts the labels.
func FuzzLabels(f *testing.F) {
	f.Add("AMD Instinct MI300X OAM", "6.16.6", "cpx_nps4", "simd_count 1216\nsimd_per_cu 4\n", "size_in_bytes 206141652992\n")
	f.Add("-._\x00ä"+"0123456789012345678901234567890123456789012345678901234567890123456789", " ", "_", "simd_count 18446744073709551615\nsimd_per_cu 1\n", "size_in_bytes 18446744073709551615")
	f.Fuzz(func(t *testing.T, name, version, style, properties, memory string) {
		m := nodelabels.Machine{DriverVersion: version, DriverSource: style, GPUs: map[gpu.Slot]nodelabels.Values{{}: {"family": style, "device-id": version, "product-name": name,
			"vram": properties, "simd-count": memory, "cu-count": name, "style": style}}}
		fits(t, nodelabels.Labels(m))
		r := hosttest.Root(t)
		const node = "/sys/class/kfd/kfd/topology/nodes/1/"
		hosttest.Put(t, r, node+"properties", properties)
		hosttest.Put(t, r, node+"mem_banks/0/properties", memory)
		hosttest.Put(t, r, "/sys/module/amdgpu/version", version)
		fits(t, nodelabels.Labels(nodelabels.Read(r, []gpu.GPU{{Slot: gpu.Slot{Model: name}, KFDNode: 1}})))
	})
}
