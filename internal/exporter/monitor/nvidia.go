package monitor

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

type nvidiaVendor struct{}

func (nvidiaVendor) reader(m *Monitor, d reading.Device) reader {
	return nvidiagpu.NewReader(m.root, d, m.nvidiaReport, m.now)
}

func (nvidiaVendor) driverVersion(r host.Root) string { return nvidiagpu.DriverVersion(r) }

func (nvidiaVendor) userNode(r host.Root, d reading.Device) (node string, ok bool) {
	node = nvidiagpu.Node(r, d.PCI)
	return node, node != ""
}

// captured returns no GPU: without a node, nvidiagpu has nothing to read.
func (nvidiaVendor) captured(host.Root, gpu.Inventory) ([]reading.Device, error) { return nil, nil }
