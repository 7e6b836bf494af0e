package baseline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// clone is a repository of commits with a file measure.sh that writes their profile. The
// ids depend on nothing more, so that goldens have them.
type clone struct {
	t        *testing.T
	profiles string
	host     host.Host
	ctx      context.Context
}

type still struct{ host.Clock }

func (still) Now() time.Time { return time.Date(2026, 11, 21, 16, 30, 0, 0, time.UTC) }

func newClone(t *testing.T, scripts ...string) *clone {
	t.Helper()
	repo := t.TempDir()
	t.Chdir(repo)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("GPU_FIXED_CLOCKS_RECORD", "")
	for k, v := range map[string]string{"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t.example", "GIT_AUTHOR_DATE": "2026-11-21T00:00:00Z",
		"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t.example", "GIT_COMMITTER_DATE": "2026-11-21T00:00:00Z"} {
		t.Setenv(k, v)
	}
	c := &clone{t: t, profiles: t.TempDir(), host: host.Host{Runner: host.Exec{}, Clock: still{host.WallClock{}}}, ctx: t.Context()}
	c.git("init", "-q", "-b", "main")
	for i, script := range scripts {
		require.NoError(t, os.WriteFile("measure.sh", []byte(script), 0o644))
		c.git("add", ".")
		c.git("commit", "-q", "--allow-empty", "-m", fmt.Sprintf("Change %d for @team | \x1b[31m", i))
	}
	return c
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	out, err := exec.Command("git", args...).CombinedOutput()
	require.NoError(c.t, err, string(out))
	return strings.TrimSpace(string(out))
}

func (c *clone) run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(c.ctx, c.host, "gpu-baseline", "v1", args, Streams{strings.NewReader(""), &out, &errs})
	// Nothing stays, whatever became of it.
	require.Equal(c.t, 1, strings.Count(c.git("worktree", "list")+"\n", "\n"))
	remaining, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*"))
	require.NoError(c.t, err)
	require.Empty(c.t, remaining)
	return code, out.String(), errs.String()
}

// bisect searches from the first commit to the last.
func (c *clone) bisect(args ...string) (code int, stdout, stderr string) {
	first := c.git("rev-list", "--max-parents=0", "HEAD")
	return c.run(append([]string{"bisect", first + "..HEAD", "--profiles", c.profiles, "--max-duration-pct=10", "--max-memory-mb=50"}, args...)...)
}

var measuring = []string{"--", "sh", "measure.sh"}

func (c *clone) kept(pattern string) (names []string) {
	found, err := filepath.Glob(filepath.Join(c.profiles, pattern))
	require.NoError(c.t, err)
	for _, f := range found {
		names = append(names, filepath.Base(f))
	}
	return names
}

// script writes a profile.
func script(examples ...string) string {
	return fmt.Sprintf("echo '{\"examples\": {%s}}' >\"$PROFILE_JSON\"\n", strings.Join(examples, ", "))
}

func example(name, seconds string, mb int) string {
	return fmt.Sprintf(`%q: {"status": "ok", "duration_s": %s, "peak_memory_mb": %d}`, name, seconds, mb)
}

// slower returns n commits, of which the one with this number made matmul slower.
func slower(n, culprit int) (scripts []string) {
	for i := range n {
		seconds := "1"
		if i >= culprit {
			seconds = "1.5"
		}
		scripts = append(scripts, script(example("matmul", seconds, 100)))
	}
	return scripts
}

// history has all that a search meets: a slower commit, a bigger one behind one that does
// not run, an example that no longer exists, and noise.
func history() (scripts []string) {
	for i := range 16 {
		matmul, conv := "1.0"+fmt.Sprint(i%3), 300
		if i >= 11 {
			matmul = "1.3" + fmt.Sprint(i%3)
		}
		if i >= 5 {
			conv = 400
		}
		examples := []string{example("matmul", matmul, 512), example("conv|2d", "2", conv)}
		if i < 15 {
			examples = append(examples, example("gone", "1", 1))
		}
		s := script(append(examples, example("fft", "0.5", 64))...)
		if i == 4 {
			s = "exit 3\n"
		}
		scripts = append(scripts, s)
	}
	return scripts
}

func TestReportsOfBisectAsTheyArePrinted(t *testing.T) {
	here, err := filepath.Abs("testdata")
	require.NoError(t, err)
	c := newClone(t, history()...)
	for format, ending := range map[string]string{"text": "txt", "json": "golden.json", "markdown": "md"} {
		c.profiles = t.TempDir()
		code, stdout, stderr := c.bisect(append([]string{"--format", format}, measuring...)...)
		require.Equal(t, exitUnclear, code, stderr)
		hosttest.Golden(t, filepath.Join(here, "bisect."+ending), stdout)
		if format == "text" {
			hosttest.Golden(t, filepath.Join(here, "bisect.log"), stderr)
		}
		if format == "json" {
			require.True(t, json.Valid([]byte(stdout)))
		}
		require.NotContains(t, stdout+stderr, "\x1b")
		for line := range strings.Lines(stdout) {
			require.True(t, format != "markdown" || !strings.HasPrefix(line, "|") || strings.Count(line, "|") == 9, line)
			require.True(t, format != "markdown" || !strings.Contains(line, "@"), line)
		}

		// By what was kept the answer is the same; only the commit that does not run is tried
		// again.
		again, _, stderr := c.bisect(measuring...)
		require.Equal(t, exitUnclear, again)
		require.LessOrEqual(t, strings.Count(stderr, "\nrun "), 1, stderr)
	}
}

// Each file names its kind; none is written twice in the same second.
func TestBisectKeepsItsProfilesAsThePipelineDoes(t *testing.T) {
	c := newClone(t, slower(5, 3)...)
	code, stdout, stderr := c.bisect(measuring...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "Change 3")
	culprit := c.git("rev-parse", "--short=12", "HEAD~1")
	require.Equal(t, []string{"profile-20261121163000-" + culprit + ".json", "profile-20261121163001-" + culprit + ".json"}, c.kept("*"+culprit+"*"), "twice, as it is the one")

	before := c.kept("*")
	require.NoError(t, os.WriteFile(filepath.Join(c.profiles, "profile-1-"+culprit+".json"), []byte("[\x1b"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(c.profiles, "notes.txt"), nil, 0o600))
	code, stdout, _ = c.bisect()
	require.Zero(t, code, "without a command")
	require.Contains(t, stdout, fmt.Sprintf("%d profiles were there, 0 runs were made", len(before)))
	require.Contains(t, stdout, "left out: cannot read ")
	require.NotContains(t, stdout, "\x1b")
}

// stopping ends a context after so many measurements, in the middle of the next.
type stopping struct {
	host.Runner
	cancel context.CancelFunc
	after  int
}

func (s *stopping) Run(ctx context.Context, c host.Command) ([]byte, error) {
	if c.Shown {
		if s.after--; s.after < 0 {
			s.cancel()
		}
	}
	return s.Runner.Run(ctx, c)
}

func TestInterruptedBisectResumes(t *testing.T) {
	c := newClone(t, slower(33, 20)...)
	_, whole, stderr := c.bisect(measuring...)
	runs := strings.Count("\n"+stderr, "\nrun ")
	c.profiles = t.TempDir()
	for after := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		c.ctx, c.host.Runner = ctx, &stopping{host.Exec{}, cancel, after + 1}
		code, stdout, stderr := c.bisect(measuring...)
		require.Equal(t, exitWrong, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "interrupted: what was measured is in "+c.profiles+", and the same command continues from there")
	}
	require.Len(t, c.kept("*"), 1+2+3)
	c.ctx, c.host.Runner = t.Context(), host.Exec{}
	code, stdout, stderr := c.bisect(measuring...)
	require.Zero(t, code)
	require.Equal(t, runs-6, strings.Count("\n"+stderr, "\nrun "))
	_, rest, _ := strings.Cut(stdout, "\n")
	_, want, _ := strings.Cut(whole, "\n")
	require.Equal(t, want, rest)
}

func TestDryRunOfBisectShowsTheNextRun(t *testing.T) {
	c := newClone(t, slower(9, 5)...)
	code, stdout, stderr := c.bisect(append([]string{"--dry-run"}, measuring...)...)
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.Empty(t, c.kept("*"))
	require.Regexp(t, `^would run sh measure.sh with [0-9a-f]{12} checked out: the good end has no profile; then for this example at most 4 more, and more if growth is near a limit\n$`, stdout)
	c.bisect(measuring...)
	_, stdout, _ = c.bisect("--dry-run")
	require.Equal(t, "nothing is left to run\n", stdout)
}

// 125 is for ever, as the command asks for it; any other failure may be the machine's.
func TestSkipOfACommandIsPermanent(t *testing.T) {
	scripts := slower(5, 3)
	scripts[2] = "exit 125\n"
	c := newClone(t, scripts...)
	skipped := c.git("rev-parse", "--short=12", "HEAD~2")
	for range 2 {
		code, stdout, _ := c.bisect(measuring...)
		require.Equal(t, exitUnclear, code)
		require.Contains(t, stdout, "one of 2 commits")
		require.Equal(t, []string{"skip-" + skipped + ".txt"}, c.kept("skip-*"))
	}
	_, stdout, stderr := c.bisect(measuring...)
	require.Empty(t, stderr)
	require.Contains(t, stdout, skipped+" can't be measured: its command asked to skip it, and skip-"+skipped+".txt records this")
}

// A run that its record calls invalid is not a profile, and is made again, but not for
// ever.
func TestInvalidRunsAreMadeAgain(t *testing.T) {
	record := func(valid string) string {
		return fmt.Sprintf("echo '{\"valid\": %s, \"reason\": \"throttled\"}' >\"$GPU_FIXED_CLOCKS_RECORD\"\n", valid)
	}
	once := `if [ -e "$GPU_FIXED_CLOCKS_RECORD" ]; then ` + strings.TrimSpace(record("true")) + "; else " + strings.TrimSpace(record("false")) + "; fi\n"
	scripts := slower(3, 1)
	scripts[0] += once
	c := newClone(t, scripts...)
	t.Setenv("GPU_FIXED_CLOCKS_RECORD", filepath.Join(t.TempDir(), "record.json"))
	code, _, stderr := c.bisect(measuring...)
	require.Zero(t, code, stderr)
	require.Equal(t, 1, strings.Count(stderr, "the run is invalid and is repeated: throttled\n"))

	c = newClone(t, slower(3, 1)[0]+record("false"), slower(3, 1)[1])
	t.Setenv("GPU_FIXED_CLOCKS_RECORD", filepath.Join(t.TempDir(), "record.json"))
	for _, args := range [][]string{{"bisect", "HEAD~1..", "--profiles", c.profiles}, {"ab", "HEAD~1", "HEAD"}} {
		code, stdout, stderr := c.run(append(append(args, "--max-duration-pct=10"), measuring...)...)
		require.Equal(t, exitUnclear, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "gpu-baseline: cannot measure: 3 runs in turn were invalid: throttled\n")
	}
	require.Empty(t, c.kept("*"))
}

func TestVersionsOfAPipelineAreSearchedAsARangeIs(t *testing.T) {
	c := newClone(t, slower(6, 4)...)
	ids := strings.Fields(c.git("rev-list", "HEAD"))
	var listed []string
	for i, id := range ids {
		listed = append(listed, fmt.Sprintf(`{"id": %d, "version": {"ref": %q}, "enabled": true}`, i, id))
	}
	file := filepath.Join(t.TempDir(), "versions")
	for name, text := range map[string]string{
		"of fly": "[" + strings.Join(listed, ", ") + "]",
		"lines":  "# the oldest first\n" + ids[5] + "\n\n" + ids[3][:12] + " with a subject\np/profile-20261121163000-" + ids[1][:12] + ".json\n" + ids[0] + "\n",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		c.profiles = t.TempDir()
		code, stdout, stderr := c.run(append([]string{"bisect", "--versions", file, "--profiles", c.profiles, "--max-duration-pct=10"}, measuring...)...)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "\n  "+ids[1][:12]+" \n", name)
	}
}

// A merge counts for all that it brought, and the report shows how to look inside.
func TestMergeIsOneCommitOfTheRange(t *testing.T) {
	c := newClone(t, slower(3, 9)...)
	c.git("checkout", "-q", "-b", "side", "HEAD~1")
	for i, s := range slower(3, 1) {
		require.NoError(t, os.WriteFile("measure.sh", []byte(s), 0o644))
		c.git("commit", "-qam", fmt.Sprint("side ", i), "--allow-empty")
	}
	c.git("checkout", "-q", "main")
	c.git("merge", "-q", "-X", "theirs", "-m", "Merge side", "side")
	code, stdout, stderr := c.bisect(measuring...)
	require.Zero(t, code, stderr)
	merge := c.git("rev-parse", "--short=12", "HEAD")
	require.Contains(t, stdout, "\n  "+merge+" Merge side\n")
	require.Contains(t, stdout, "is a merge: to look inside, bisect what git merge-base "+merge+"^1 "+merge+"^2 prints.."+merge+"^2")
}

func TestBisectReportsErrors(t *testing.T) {
	c := newClone(t, slower(4, 2)...)
	c.git("branch", "other", "HEAD~1")
	limits := []string{"--max-duration-pct=10"}
	for name, w := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"no range":          {[]string{"--profiles", c.profiles}, 2, "cannot bisect 0 ranges: want one, OLD..NEW, or --versions; see gpu-baseline bisect --help"},
		"range and list":    {[]string{"HEAD~1..", "--versions", "f", "--profiles", c.profiles}, 2, "cannot bisect both a range and --versions"},
		"no folder":         {[]string{"HEAD~1.."}, 2, "cannot bisect without a folder of profiles: give --profiles"},
		"no such folder":    {[]string{"HEAD~1..", "--profiles", "none"}, 2, "cannot read the profiles in none: no such file or directory"},
		"no command":        {[]string{"HEAD~1..", "--profiles", c.profiles, "--"}, 2, "no command after --"},
		"no runs":           {[]string{"HEAD~1..", "--profiles", c.profiles, "--max-runs=0"}, 2, "--max-runs must be 1 or more"},
		"no time":           {[]string{"HEAD~1..", "--profiles", c.profiles, "--timeout=0s"}, 2, "--timeout must be more than 0"},
		"no limit":          {[]string{"HEAD~1..", "--profiles", c.profiles, "--max-duration-pct"}, 2, "flag needs an argument"},
		"no range at all":   {[]string{"HEAD", "--profiles", c.profiles}, 2, `cannot bisect "HEAD": want OLD..NEW`},
		"three dots":        {[]string{"HEAD~1...HEAD", "--profiles", c.profiles}, 2, `want OLD..NEW`},
		"an option":         {[]string{"--profiles", c.profiles, "--", "x"}, 2, "cannot bisect 0 ranges"},
		"no such commit":    {[]string{"nothing..HEAD", "--profiles", c.profiles}, 2, `cannot find the commit "nothing": is this the folder of a clone that has it?`},
		"the wrong way":     {[]string{"HEAD..HEAD~1", "--profiles", c.profiles}, 2, `"HEAD" is not among the commits before "HEAD~1"`},
		"nothing between":   {[]string{"HEAD..HEAD", "--profiles", c.profiles}, 2, "the good commit is the last one"},
		"no profiles":       {[]string{"HEAD~1..", "--profiles", c.profiles}, 1, "the good end"},
		"no such list":      {[]string{"--versions", "none", "--profiles", c.profiles}, 2, "cannot read none: no such file or directory"},
		"nothing is worse":  {append([]string{"HEAD~1..", "--profiles", t.TempDir()}, measuring...), 1, `"matmul": not worse, confidence 99.9 %: duration (s) 1.5 -> 1.5, 0 s (0 %)`},
		"the command fails": {[]string{"HEAD~2..", "--profiles", t.TempDir(), "--", "false"}, 1, "can't be measured: the command exits with 1; take another commit"},
	} {
		args := append(append([]string{"bisect"}, limits...), w.args...)
		code, stdout, stderr := c.run(args...)
		require.Equal(t, w.code, code, "%s: %s", name, stderr)
		require.Empty(t, stdout, name)
		require.Contains(t, stderr, w.stderr, name)
	}
	code, _, stderr := c.run("bisect", "HEAD~1..", "--profiles", c.profiles)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "cannot find what is worse without a limit: set --max-duration-pct or another limit")
}
