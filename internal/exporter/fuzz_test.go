package exporter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzLabelFile(f *testing.F) {
	for _, s := range []string{"temp1_label", "temp12_label", "temp_label", "temp-1_label", "temp1_input", "temp999_label", "_label", "temp01_label", "in0_label"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		kind, n, ok := labelFile(name)
		if ok {
			require.LessOrEqual(t, n, 255)
			require.NotEmpty(t, kind)
			require.Equal(t, name, fmt.Sprintf("%s%d_label", kind, n))
		}
	})
}

func FuzzUevent(f *testing.F) {
	f.Add("DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n")
	f.Add("DRIVER=vfio-pci\nPCI_ID=1002:744C\n")
	f.Add("DRIVER=nvidia\nPCI_ID=10DE:2704\n")
	f.Add("PCI_ID=:\n=\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := parseUevent(text); ok {
			require.Contains(t, text, "DRIVER=amdgpu")
			require.True(t, strings.HasPrefix(d.Name, "AMD GPU 1002:"))
		}
	})
}
