package commandline

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnknownFlagNamesTheNearestOne(t *testing.T) {
	var version bool
	fs := New("x", &version)
	fs.String("poll.interval", "30s", "`time` between polls")
	fs.Int("n", 0, "number")
	for args, want := range map[string]string{
		"--poll.intervall=1s": "unknown flag: --poll.intervall; did you mean --poll.interval?",
		"--interval=1s":       "unknown flag: --interval; did you mean --poll.interval?",
		"-versoin":            "unknown flag: --versoin; did you mean --version?",
		"--nothing":           "unknown flag: --nothing",
		"--poll.interval":     "flag needs an argument: --poll.interval",
		"--n=x":               `invalid value "x" for flag --n: parse error`,
	} {
		require.EqualError(t, FlagError(fs, fs.Parse([]string{args})), want)
	}
	require.ErrorIs(t, FlagError(fs, fs.Parse([]string{"--help"})), flag.ErrHelp)
	require.NoError(t, FlagError(fs, fs.Parse([]string{"-version"})))
	require.True(t, version)
}

func TestHelpFitsATerminal(t *testing.T) {
	fs := New("x", new(bool))
	fs.Duration("a-flag-with-a-very-long-name", 30e9, strings.Repeat("`time` of words ", 9))
	var b strings.Builder
	require.NoError(t, Help{Usage: []string{"x [flags]"}, Text: strings.Repeat("some words ", 30), Flags: fs,
		Examples: []string{"x --version"}}.Write(&b))
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, len(line), Width+1, line)
	}
	require.True(t, strings.HasPrefix(b.String(), "Usage: x [flags]\n\nsome words"), b.String())
	require.Contains(t, b.String(), "\n  --a-flag-with-a-very-long-name=TIME\n")
	require.Contains(t, b.String(), "(default 30s)")
	require.True(t, strings.HasSuffix(b.String(), "\nExample:\n  x --version\n\nExit status: 0 done, 1 failed, 2 wrong command line.\n"))
}

func TestTextIsWrappedBetweenWords(t *testing.T) {
	require.Equal(t, []string{"a bc", "def", "ghijklm", "°°°° n"}, Wrap(" a bc  def ghijklm °°°° n", 6))
	require.Equal(t, []string{""}, Wrap("", 6))
}
