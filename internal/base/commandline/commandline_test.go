package commandline

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// program returns a program with a group, a command that fails as the flag --status wants,
// and a hidden command.
func program() *cobra.Command {
	root := Group(&cobra.Command{Use: "x", Version: "v1", Long: strings.Repeat("some words ", 30)})
	run := &cobra.Command{Use: "run [flags]", Short: "run it", Args: NoArgs, Annotations: map[string]string{Exit: "0 or 9."}}
	status := run.Flags().Int("status", 0, "`number` to end with")
	run.Flags().Duration("poll.interval", 30*time.Second, "`time` "+strings.Repeat("of words ", 16))
	run.RunE = func(*cobra.Command, []string) error {
		return map[int]error{1: errors.New("cannot run: broken"), 8: &ExitError{Status: 8},
			9: &ExitError{9, errors.New("worse")}}[*status]
	}
	root.AddCommand(run, &cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}})
	return root
}

func TestCommandLinesEndWithAStatusAndAHint(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		out    string
	}{
		"":                          {2, "x: cannot run x without a command: want one of run; see x --help\n"},
		"rnu":                       {2, "x: cannot run x \"rnu\": no such command; see x --help\n"},
		"ru":                        {2, "x: cannot run x \"ru\": no such command; did you mean run?; see x --help\n"},
		"run now":                   {2, "x: cannot run x run with \"now\": want x run [flags]; see x run --help\n"},
		"run --poll.intervall=1s":   {2, "x: cannot run x run: unknown flag: --poll.intervall; did you mean --poll.interval?; see x run --help\n"},
		"run --interval=1s":         {2, "x: cannot run x run: unknown flag: --interval; did you mean --poll.interval?; see x run --help\n"},
		"run --nothing":             {2, "x: cannot run x run: unknown flag: --nothing; see x run --help\n"},
		"run --status":              {2, "x: cannot run x run: flag needs an argument: --status; see x run --help\n"},
		"run --poll.interval often": {2, `invalid argument "often" for "--poll.interval" flag`},
		"run":                       {0, ""},
		"run --status=1":            {1, "x: cannot run: broken\n"},
		"run --status=8":            {8, ""},
		"run --status=9":            {9, "x: worse\n"},
		"--version":                 {0, "x v1\n"},
	} {
		var out bytes.Buffer
		require.Equal(t, want.status, Run(context.Background(), program(), strings.Fields(args), &out, &out), args)
		require.Contains(t, out.String(), want.out, args)
		require.Equal(t, want.out == "", out.Len() == 0, args)
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	for args, want := range map[string][]string{
		"--help": {"Usage: x COMMAND\n\nsome words", "\n  run           run it\n",
			"\n\nExit status: 0 done, 1 failed, 2 wrong command line.\n"},
		"run -h": {"Usage: x run [flags]\n\nRun it.\n", "\n  --poll.interval=TIME  time of words", "(default 30s)", "\n\nExit status: 0 or 9.\n"},
	} {
		var out bytes.Buffer
		require.Zero(t, Run(context.Background(), program(), strings.Fields(args), &out, &out))
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, len(line), Width+1, line)
		}
		for _, w := range want {
			require.Contains(t, out.String(), w)
		}
		require.NotContains(t, out.String(), "secret")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestTextThatCannotBeWrittenIsAFailure(t *testing.T) {
	for _, arg := range []string{"--help", "--version"} {
		var errs bytes.Buffer
		require.Equal(t, ExitFailed, Run(context.Background(), program(), []string{arg}, full{}, &errs))
		require.Contains(t, errs.String(), "no space left on device\n")
	}
}

func TestTextIsWrappedBetweenWords(t *testing.T) {
	require.Equal(t, []string{"a bc", "def", "ghijklm", "°°°° n"}, Wrap(" a bc  def ghijklm °°°° n", 6))
	require.Equal(t, []string{""}, Wrap("", 6))
}

// A name that is as wide as its column stays beside its text. A longer one gets its own line.
func TestRowsHaveTwoColumns(t *testing.T) {
	for left, want := range map[string]string{"abcd": "  abcd  text\n", "abc": "  abc   text\n", "abcde": "  abcde\n        text\n", "": "        text\n"} {
		var b strings.Builder
		WriteRow(&b, left, 6, "text")
		require.Equal(t, want, b.String(), left)
	}
	var b strings.Builder
	WriteRow(&b, "a", 4, strings.Repeat("word ", 40))
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, len(line), Width+1, line)
	}
}
