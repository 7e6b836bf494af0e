package baseline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// turns writes which side was measured into a file, and a profile.
func turns(side string, examples ...string) string {
	return "printf " + side + " >>\"$TURNS\"\n" + script(examples...)
}

func TestReportsOfABAsTheyArePrinted(t *testing.T) {
	here, err := filepath.Abs("testdata")
	require.NoError(t, err)
	c := newClone(t,
		turns("A", example("matmul", "1", 512), example("conv|2d", "2", 300), example("fft", "0.002", 64), example("gone", "1", 1)),
		turns("B", example("matmul", "1.25", 512), example("conv|2d", "2.02", 300), example("fft", "0.003", 64), example("new @one", "1", 1)))
	log := filepath.Join(t.TempDir(), "turns")
	t.Setenv("TURNS", log)
	for format, ending := range map[string]string{"text": "txt", "json": "golden.json", "markdown": "md"} {
		require.NoError(t, os.WriteFile(log, nil, 0o600))
		code, stdout, stderr := c.run(append([]string{"ab", "HEAD~1", "HEAD", "--max-duration-pct=10", "--max-duration-s=0.01", "--max-memory-pct=10", "--allow-missing", "--format", format}, measuring...)...)
		require.Equal(t, exitBeyond, code, stderr)
		hosttest.Golden(t, filepath.Join(here, "ab."+ending), stdout)
		took, err := os.ReadFile(log)
		require.NoError(t, err)
		require.Equal(t, "ABBAABBA", string(took))
		require.True(t, format != "json" || json.Valid([]byte(stdout)))
		for line := range strings.Lines(stdout) {
			require.True(t, format != "markdown" || !strings.HasPrefix(line, "|") || strings.Count(line, "|") == 9, line)
			require.True(t, format != "markdown" || !strings.Contains(line, "@"), line)
		}
	}
}

func TestABHasAnExitStatusForEachResult(t *testing.T) {
	c := newClone(t, script(example("a", "1", 1)))
	t.Setenv("COUNT", filepath.Join(t.TempDir(), "count"))
	flat := `sh measure.sh`
	unsteady := `if [ -e "$COUNT" ]; then rm "$COUNT"; s=1; else : >"$COUNT"; s=1.2; fi; echo '[{"name": "a", "status": "ok", "duration_s": '$s'}]' >"$PROFILE_JSON"`
	slow := strings.TrimSpace(script(example("a", "2", 1)))
	limit := "--max-duration-pct=10"
	for name, w := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"not worse":     {[]string{"--a", flat, "--b", flat, limit}, 0, "OK: 1 not worse; 4 rounds; limits: duration +10 %\n", ""},
		"worse":         {[]string{"--a", flat, "--b", slow, limit}, 1, "FAILED: 1 worse; 4 rounds; ", ""},
		"bigger":        {[]string{"--a", flat, "--b", strings.TrimSpace(script(example("a", "1", 9))), "--max-memory-mb=1"}, 1, "peak memory grew by 8 MB; the limit is 1 MB", ""},
		"not clear":     {[]string{"--a", flat, "--b", unsteady, limit, "--max-runs=6"}, 3, "NOT CLEAR: 1 not clear; 6 rounds; ", ""},
		"another one":   {[]string{"--a", flat, "--b", flat, limit, "--example=b"}, 2, "FAILED: 1 not measured; 4 rounds; ", ""},
		"one fails":     {[]string{"--a", flat, "--b", "exit 3", limit}, 2, "", "cannot measure B: the command exits with 3"},
		"no profile":    {[]string{"--a", "true", "--b", flat, limit}, 2, "", "cannot measure A: the command wrote no $PROFILE_JSON"},
		"no JSON":       {[]string{"--a", `echo x >"$PROFILE_JSON"`, "--b", flat, limit}, 2, "", "cannot measure A: the command wrote an invalid profile to $PROFILE_JSON"},
		"one command":   {[]string{"--a", flat, limit}, 2, "", "want COMMIT_A COMMIT_B -- COMMAND, or -a COMMAND -b COMMAND; see gpu-baseline ab --help"},
		"both":          {[]string{"--a", flat, "--b", flat, limit, "HEAD"}, 2, "", "want COMMIT_A COMMIT_B"},
		"no command":    {[]string{"HEAD", "HEAD", limit}, 2, "", "want COMMIT_A COMMIT_B"},
		"no commit":     {[]string{"HEAD", "none", limit, "--", "true"}, 2, "", "cannot measure A: the command wrote no"},
		"nor that":      {[]string{"none", "HEAD", limit, "--", "true"}, 2, "", `cannot measure A: cannot find the commit "none"`},
		"too few":       {[]string{"--a", flat, "--b", flat, limit, "--max-runs=3"}, 2, "", "--max-runs must be 4 or more"},
		"no limit":      {[]string{"--a", flat, "--b", flat}, 2, "", "cannot find what is worse without a limit"},
		"not together?": {[]string{"--a", flat, "--b", flat, limit, "--together"}, 2, "", "unknown flag: --together"},
	} {
		code, stdout, stderr := c.run(append([]string{"ab"}, w.args...)...)
		require.Equal(t, w.code, code, "%s: %s%s", name, stdout, stderr)
		require.Contains(t, stdout, w.stdout, name)
		require.Contains(t, stderr, w.stderr, name)
		require.Equal(t, w.stdout == "", stdout == "", name)
	}
}

// ended answers each command that must be seen with an error.
type ended struct{ err error }

func (e ended) Run(_ context.Context, c host.Command) ([]byte, error) {
	if c.Shown {
		return nil, e.err
	}
	return nil, nil
}

func TestEndOfACommandIsReported(t *testing.T) {
	for want, err := range map[string]error{
		"the command did not end within 1h0m0s": &host.CommandError{Code: -1, Timeout: time.Hour, Err: context.DeadlineExceeded},
		"the command: signal: killed":           &host.CommandError{Code: -1, Err: errors.New("signal: killed")},
		"the command exits with 7":              &host.CommandError{Code: 7},
	} {
		m, made := newMeter(host.Host{Runner: ended{err}, Clock: host.WallClock{}}, io.Discard, time.Hour)
		require.NoError(t, made)
		_, _, err := m.measure(t.Context(), ".", []string{"x"})
		require.Equal(t, broken{want, false}, err)
		require.NoError(t, m.close())
	}
}

func TestListsOfVersions(t *testing.T) {
	for data, want := range map[string]string{
		"":                       "[]",
		"# nothing\n\n":          "[]",
		"0123abc\n4567def a b c": "[{0123abc  false} {4567def a b c false}]",
		"0123abc\n0123abcd\n":    "[{0123abc  false}]",
		`[{"version": {"ref": "4567def"}}, {"version": {"path": "a/profile-2-0123abc.json"}}]`: "[{0123abc  false} {4567def  false}]",
	} {
		got, err := parseVersions("f", []byte(data))
		require.NoError(t, err, data)
		require.Equal(t, want, fmt.Sprint(got), data)
	}
	for data, want := range map[string]string{
		"HEAD~1":                                 `cannot read f: line 1 is "HEAD~1"; want a commit's id, or the path of its profile`,
		"0123abc\n--all":                         `cannot read f: line 2 is "--all"; want`,
		"profile-x-0123abc.json":                 `cannot read f: line 1 is "profile-x-0123abc.json"; want`,
		`[{"version": {"ref": "\u001b"}}]`:       `cannot read f: version 1 is "\x1b"; want`,
		`[{"version": {"digest": "sha256:00"}}]`: `cannot read f: version 1 is ""; want`,
		`[{"version"`:                            "cannot read f: it is not a list of versions: ",
	} {
		_, err := parseVersions("f", []byte(data))
		require.ErrorContains(t, err, want, data)
	}
}

// What is read becomes an argument of git and a file's name.
func FuzzVersions(f *testing.F) {
	f.Add([]byte("0123abc subject\n# x\np/profile-20261121163000-0123456789ab.json\n"))
	f.Add([]byte(`[{"id": 1, "version": {"ref": "0123456789abcdef0123456789abcdef01234567"}, "enabled": true}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parseVersions("f", data)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "cannot read f: "))
			require.Equal(t, visible(err.Error()), err.Error())
		}
		for i, c := range all {
			require.Regexp(t, "^[0-9a-f]{7,64}$", c.ID)
			for _, other := range all[:i] {
				require.False(t, sameCommit(c.ID, other.ID))
			}
		}
	})
}
