package exporter

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Whatever a file holds, what comes out of it is a number of the plausible
// range or a fault, and text that a label can hold.
func FuzzAttribute(f *testing.F) {
	for _, s := range []string{"42\n", "-5000", "", "\x00", "0\n\x00\x00", "65535", "0x12", "1e3", " 7 \n", "\xff\xfe", "9223372036854775808", "\xff 000"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := clean(b)
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, "\x00")
		require.Equal(t, strings.TrimSpace(text), text)
		n, err := parseNumber(text)
		if err == nil {
			again, err := parseNumber(strconv.FormatInt(n, 10))
			require.NoError(t, err)
			require.Equal(t, n, again)
		}
	})
}

func FuzzTempChannel(f *testing.F) {
	for _, s := range []string{"temp1_label", "temp12_label", "temp_label", "temp-1_label", "temp1_input", "temp999_label", "_label"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := tempChannel(name)
		if ok {
			require.LessOrEqual(t, n, 255)
			again, ok := tempChannel(fmt.Sprintf("temp%d_label", n))
			require.True(t, ok)
			require.Equal(t, n, again)
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
			require.True(t, strings.HasPrefix(d.Name, "AMD GPU 0x"))
		}
	})
}
