package amdgpu

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUUID(t *testing.T) {
	for name, c := range map[string]struct {
		device Device
		serial string
		want   string
	}{
		"unique id, as HIP has it":          {Device{PCI: "0000:03:00.0", UniqueID: "4be2f10c93d57a68"}, "692", "GPU-4be2f10c93d57a68"},
		"else the serial number":            {Device{PCI: "0000:03:00.0"}, "692", "692"},
		"else the slot":                     {Device{PCI: "0000:03:00.0"}, "", "0000:03:00.0"},
		"partitions do not share a name":    {Device{PCI: "0000:03:00.0", Partition: 2}, "692", "0000:03:00.0/2"},
		"a partition with an id of its own": {Device{PCI: "0000:03:00.0", Partition: 2, UniqueID: "1d00c4a87e3f956f"}, "692", "GPU-1d00c4a87e3f956f"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.device.UUID(c.serial)) })
	}
}

func FuzzUevent(f *testing.F) {
	f.Add("DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n")
	f.Add("DRIVER=vfio-pci\nPCI_ID=1002:744C\n")
	f.Add("DRIVER=nvidia\nPCI_ID=10DE:2704\n")
	f.Add("PCI_ID=:\n=\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := parseUevent(text); ok {
			require.Contains(t, text, "DRIVER=amdgpu")
			require.True(t, strings.HasPrefix(d.IDs, "1002:"))
		}
	})
}
