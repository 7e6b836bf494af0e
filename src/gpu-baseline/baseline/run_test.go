package baseline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

func TestCompareHasAnExitStatusForEachResult(t *testing.T) {
	base, now := in("limits", "base"), in("limits", "new")
	big := filepath.Join(t.TempDir(), "big.json")
	require.NoError(t, os.WriteFile(big, make([]byte, maxSize+1), 0o600))
	empty := filepath.Join(t.TempDir(), "empty.json")
	require.NoError(t, os.WriteFile(empty, []byte(`{"examples": {}}`), 0o600))
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"within":                {[]string{"compare", base, now}, 0, "OK: 5 within; ", ""},
		"beyond":                {[]string{"compare", base, now, "--max-duration-pct", "10"}, 1, "FAILED: ", ""},
		"flags before":          {[]string{"compare", "--max-duration-pct", "10", base, now}, 1, "FAILED: ", ""},
		"flags between":         {[]string{"compare", base, "--max-duration-pct=10", now}, 1, "FAILED: ", ""},
		"files after a dash":    {[]string{"compare", "--max-duration-pct=10", "--", base, now}, 1, "FAILED: ", ""},
		"the last limit counts": {[]string{"compare", base, now, "--max-duration-pct=10", "--max-duration-pct=20"}, 0, "OK: ", ""},
		"itself":                {[]string{"compare", base, base, "--max-duration-pct=0", "--max-duration-s=0", "--max-memory-mb=0"}, 0, "OK: ", ""},
		"everything gone":       {[]string{"compare", base, empty}, 1, "FAILED: 5 missing; ", ""},
		"everything gone, allowed": {[]string{"compare", base, empty, "--allow-missing"}, 1,
			"no example of the baseline was run: nothing was compared", ""},

		"help":              {[]string{"--help"}, 0, "Usage: gpu-baseline COMMAND\n", ""},
		"help of a command": {[]string{"compare", "-h"}, 0, "Usage: gpu-baseline compare BASE NEW [flags]\n", ""},
		"version":           {[]string{"--version"}, 0, "gpu-baseline v1\n", ""},

		"nothing":            {nil, 2, "", "cannot run gpu-baseline without a command: want one of ab, bisect, compare, junit; see gpu-baseline --help\n"},
		"another command":    {[]string{"diff", base, now}, 2, "", `cannot run gpu-baseline "diff": no such command; see `},
		"one file":           {[]string{"compare", base}, 2, "", "cannot compare 1 files: want two, BASE and NEW"},
		"three files":        {[]string{"compare", base, now, now}, 2, "", "cannot compare 3 files"},
		"no file name":       {[]string{"compare", base, ""}, 2, "", "a file has no name"},
		"stdin twice":        {[]string{"compare", "-", "-"}, 2, "", "cannot read both files from standard input"},
		"unknown flag":       {[]string{"compare", base, now, "--max-time=1"}, 2, "", "cannot run gpu-baseline compare: unknown flag: --max-time"},
		"unknown format":     {[]string{"compare", base, now, "--format=html"}, 2, "", "want text, json, markdown"},
		"limit of no number": {[]string{"compare", base, now, "--max-memory-mb=much"}, 2, "", "it is much; want a number"},
		"limit NaN":          {[]string{"compare", base, now, "--max-duration-pct=NaN"}, 2, "", "it is NaN; want a number"},
		"limit infinite":     {[]string{"compare", base, now, "--max-duration-s=Inf"}, 2, "", "want 1000000000 or less"},
		"limit negative":     {[]string{"compare", base, now, "--max-duration-pct", "-1"}, 2, "", "it is -1; want 0 or more"},
		"limit missing":      {[]string{"compare", base, now, "--max-duration-pct"}, 2, "", "flag needs an argument"},
		"escapes":            {[]string{"compare", "\x1b[31m.json", now}, 2, "", `cannot read \x1b[31m.json: no such file`},

		"no baseline":      {[]string{"compare", "none.json", now}, 2, "", "on a first run give --allow-no-base"},
		"empty baseline":   {[]string{"compare", empty, now}, 2, "", "it has no examples, so nothing could fail"},
		"no new profile":   {[]string{"compare", base, "none.json"}, 2, "", "cannot read none.json: no such file or directory\n"},
		"a folder":         {[]string{"compare", base, "testdata"}, 2, "", "cannot read testdata: is a directory\n"},
		"too big":          {[]string{"compare", base, big}, 2, "", "it has more than 16 MiB\n"},
		"no profile":       {[]string{"compare", base, "run_test.go"}, 2, "", "cannot read run_test.go: it is not JSON: line 1: "},
		"nothing on stdin": {[]string{"compare", base, "-"}, 2, "", "cannot read standard input: it is empty\n"},
	} {
		code, stdout, stderr := call("", c.args...)
		require.Equal(t, c.code, code, "%s: %s%s", name, stdout, stderr)
		require.Contains(t, stdout, c.stdout, name)
		require.Contains(t, stderr, c.stderr, name)
		require.Equal(t, c.stdout == "", stdout == "", name)
		require.Equal(t, c.stderr == "", stderr == "", "%s: %s", name, stderr)
	}
}

func TestEitherProfileMayComeFromStandardInput(t *testing.T) {
	for i, name := range []string{"base", "new"} {
		data, err := os.ReadFile(in("limits", name))
		require.NoError(t, err)
		files := []string{in("limits", "base"), in("limits", "new")}
		files[i] = "-"
		code, stdout, stderr := call(string(data), append([]string{"compare", "--max-duration-pct=10"}, files...)...)
		require.Equal(t, 1, code, stderr)
		require.Contains(t, stdout, "standard input")
		require.Contains(t, stdout, "FAILED: 4 within, 1 beyond; ")
	}
}

func TestReportGoesToAFileAndTheVerdictToTheLog(t *testing.T) {
	dir := t.TempDir()
	report := filepath.Join(dir, "report.md")
	args := []string{"compare", in("limits", "base"), in("limits", "new"), "--format=markdown", "--max-duration-pct=10", "--max-memory-mb=512", "-o", report}
	require.NoError(t, os.WriteFile(report, []byte("an older and longer report"+strings.Repeat(".", 9999)), 0o644))
	code, stdout, stderr := call("", args...)
	require.Equal(t, 1, code, stderr)
	require.Equal(t, "FAILED: 4 within, 1 beyond; limits: duration +10 %, peak memory +512 MB\n", stdout)
	got, err := os.ReadFile(report)
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/beyond-limits.md")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	remaining, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, remaining, 1, "no temporary file stays")

	code, _, stderr = call("", append(args, "-o", filepath.Join(dir, "none/report.md"))...)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "/none/report.md: no such file or directory\n")
	code, _, stderr = call("", append(args, "-o", os.DevNull)...)
	require.Equal(t, 1, code, stderr)
	info, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeDevice, "a device is written to, not replaced")
}

func TestReportNeverReplacesAProfile(t *testing.T) {
	dir := t.TempDir()
	base, link := filepath.Join(dir, "base.json"), filepath.Join(dir, "link")
	data, err := os.ReadFile(in("limits", "base"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(base, data, 0o600))
	require.NoError(t, os.Link(base, link))
	code, _, stderr := call("", "compare", base, in("limits", "new"), "-o", link)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "/link: it is one of the profiles\n")
	after, err := os.ReadFile(base)
	require.NoError(t, err)
	require.Equal(t, data, after)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestReportThatCannotBeWrittenIsAFailure(t *testing.T) {
	args := []string{"compare", in("limits", "base"), in("limits", "new")}
	var errs strings.Builder
	require.Equal(t, 2, Run(context.Background(), host.New(""), "gpu-baseline", "v1", args, Streams{strings.NewReader(""), full{}, &errs}))
	require.Equal(t, "gpu-baseline: cannot write the output: no space left on device\n", errs.String())
}

func TestHelpNamesEveryFlagAndFitsATerminal(t *testing.T) {
	for command, flags := range map[string][]string{
		"compare": {"--allow-missing ", "--allow-no-base ", "--format=FORMAT", "--max-duration-pct=N", "--max-duration-s=N", "--max-memory-mb=N", "--max-memory-pct=N", "-o=FILE", "--together "},
		"bisect":  {"--profiles=FOLDER", "--versions=FILE", "--example=NAME", "--min-runs=N", "--max-runs=N", "--noise-pct=N", "--timeout=LONG", "--dry-run ", "--max-duration-pct=N", "-o=FILE", "--together "},
		"ab":      {"-a=COMMAND", "-b=COMMAND", "--example=NAME", "--max-runs=N", "--noise-pct=N", "--timeout=LONG", "--max-duration-pct=N", "-o=FILE", "--allow-missing "},
	} {
		_, stdout, _ := call("", command, "--help")
		for _, flag := range flags {
			require.Contains(t, stdout, "\n  "+flag)
		}
		_, all, _ := call("", "--help")
		require.Contains(t, all, "\n  "+command+" ")
		for line := range strings.Lines(stdout + all) {
			require.LessOrEqual(t, len(line), 81, line)
		}
	}
}
