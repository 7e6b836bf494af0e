package demo

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestWorkWithoutATerminalHasItsBeginAndItsSeconds(t *testing.T) {
	require.Equal(t, "  now       boot\n  ok        0 s\n", shownBy(t, func(d *demo) {
		require.NoError(t, d.screen.work("boot", func(report func(string)) error {
			report("a step")
			return nil
		}))
	}))
	failure := errors.New("no namespaces")
	require.Equal(t, "  now       boot\n", shownBy(t, func(d *demo) {
		require.Equal(t, failure, d.screen.work("boot", func(func(string)) error { return failure }))
	}), "the caller shows the failure")
}

func TestWorkOnATerminalIsOneLine(t *testing.T) {
	out := shownBy(t, func(d *demo) {
		d.screen.terminal = true
		require.NoError(t, d.screen.work("boot", func(func(string)) error { return nil }))
	})
	require.Equal(t, clearLine+"  now       boot (0 s)"+clearLine+"  ok        boot (0 s)\n", out)
	out = shownBy(t, func(d *demo) { d.screen.live("install", strings.Repeat("a long step ", 20), "12 s") })
	require.Less(t, utf8.RuneCountInString(strings.TrimPrefix(out, clearLine)), columns, "it never wraps")
	require.True(t, strings.HasSuffix(out, "... (12 s)"), out)
}

func TestOutputOfACommandKeepsColumnsThatFit(t *testing.T) {
	long := strings.Repeat("word ", 20)
	out := shownBy(t, func(d *demo) { d.screen.output("web        http://x\n\n  " + long + "\n") })
	require.True(t, strings.HasPrefix(out, "    web        http://x\n\n      word word"), out)
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), columns, line)
	}
}
