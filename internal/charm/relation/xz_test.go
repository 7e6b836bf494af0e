package relation

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unpack has the xz program read the data.
func unpack(t *testing.T, data []byte) string {
	t.Helper()
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("there is no xz here to read the data with (Debian: xz-utils)")
	}
	c := exec.Command("xz", "--decompress", "--stdout", "--format=xz", "--single-stream")
	var out, errs strings.Builder
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(data), &out, &errs
	require.NoError(t, c.Run(), errs.String())
	return out.String()
}

func TestXZProgramReadsTheOutput(t *testing.T) {
	for name, size := range map[string]int{"nothing": 0, "one byte": 1, "one chunk": maxChunk, "one more": maxChunk + 1, "several": 5*maxChunk - 3} {
		t.Run(name, func(t *testing.T) {
			text := make([]byte, size)
			for i := range text {
				text[i] = byte(i * i >> 3)
			}
			require.Equal(t, string(text), unpack(t, xz(text)))
		})
	}
	t.Run("and a changed one is not", func(t *testing.T) {
		unpack(t, xz([]byte("text")))
		data := xz([]byte("text"))
		data[bytes.Index(data, []byte("text"))]++
		c := exec.Command("xz", "--decompress", "--stdout")
		c.Stdin = bytes.NewReader(data)
		require.Error(t, c.Run(), "the check has to be the data's")
	})
}
