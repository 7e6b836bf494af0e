package monitor

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
)

type nvidiaVendor struct{}

func (nvidiaVendor) reader(m *Monitor, d gpu.Slot) reader {
	return nvidiagpu.NewReader(m.root, d, m.nvidiaReport, m.now)
}

func (nvidiaVendor) driverVersion(r host.Root) string { return nvidiagpu.DriverVersion(r) }

// captured returns no GPU: without a node, nvidiagpu has nothing to read.
func (nvidiaVendor) captured(host.Root, gpu.Inventory) ([]gpu.Slot, error) { return nil, nil }
