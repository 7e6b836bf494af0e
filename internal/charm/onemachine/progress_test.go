package onemachine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStepReplacesTheLastOneOnATerminalOnly(t *testing.T) {
	show := func(terminal bool) string {
		var b strings.Builder
		p := Progress{W: &b, Terminal: terminal}
		p.Step("1/2 write a")
		p.Step(strings.Repeat("x", 100))
		p.Note("warning")
		p.End()
		return b.String()
	}
	require.Equal(t, "1/2 write a\n"+strings.Repeat("x", 100)+"\nwarning\n", show(false))
	require.Equal(t, "\r\x1b[K1/2 write a\r\x1b[K"+strings.Repeat("x", 76)+"...\r\x1b[Kwarning\n\r\x1b[K", show(true))
}
