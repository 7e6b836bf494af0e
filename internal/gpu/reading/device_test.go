package reading

import (
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUUID(t *testing.T) {
	for name, c := range map[string]struct {
		device Device
		serial string
		want   string
	}{
		"unique id, as HIP has it":          {Device{Slot: gpu.Slot{PCI: "0000:03:00.0", UniqueID: "4be2f10c93d57a68"}}, "692", "GPU-4be2f10c93d57a68"},
		"else the serial number":            {Device{Slot: gpu.Slot{PCI: "0000:03:00.0"}}, "692", "692"},
		"else the slot":                     {Device{Slot: gpu.Slot{PCI: "0000:03:00.0"}}, "", "0000:03:00.0"},
		"partitions do not share a name":    {Device{Slot: gpu.Slot{PCI: "0000:03:00.0", Partition: 2}}, "692", "0000:03:00.0/2"},
		"a partition with an id of its own": {Device{Slot: gpu.Slot{PCI: "0000:03:00.0", Partition: 2, UniqueID: "1d00c4a87e3f956f"}}, "692", "GPU-1d00c4a87e3f956f"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, UUID(c.device, c.serial)) })
	}
}
