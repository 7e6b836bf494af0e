package sanitize

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestLineMovesNoCursorAndIsBounded(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "MI300X": "MI300X", "für Ω": "für Ω", "a\nb\tc": "a?b?c", "\x1b[31m": "?[31m", "\xff\u202e": "??",
		"12345678": "12345678", "123456789": "12345678...", "äöüäöüäöü": "äöüäöüäö...",
	} {
		got := Line(in, 8)
		require.Equal(t, want, got)
		require.Equal(t, got, Line(got, 8), "what was made fit is")
		require.True(t, utf8.ValidString(got))
	}
}

func FuzzLine(f *testing.F) {
	f.Add("\x1b[2J\r\nring\x00", 300)
	f.Fuzz(func(t *testing.T, text string, most int) {
		got := Line(text, max(0, most))
		require.LessOrEqual(t, utf8.RuneCountInString(got), max(0, min(most, len(text)))+len("..."))
		require.False(t, strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }))
	})
}
