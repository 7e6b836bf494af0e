package sysfile

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Whatever a file holds, what comes out of it is a number or none, and text
// that a label can hold.
func FuzzAttribute(f *testing.F) {
	for _, s := range []string{"42\n", "-5000", "", "\x00", "0\n\x00\x00", "65535", "0x12", "1e3", " 7 \n", "\xff\xfe", "9223372036854775808", "\xff 000", "16.0 GT/s PCIe"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := Clean(b)
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, "\x00")
		require.Equal(t, strings.TrimSpace(text), text)
		n, err := Number(Trim(b))
		if err == nil {
			again, err := Number([]byte(strconv.FormatInt(n, 10)))
			require.NoError(t, err)
			require.Equal(t, n, again)
		}
		if v, ok := Leading(Trim(b)); ok {
			require.True(t, v >= 0 && v < 1e15)
		}
	})
}
