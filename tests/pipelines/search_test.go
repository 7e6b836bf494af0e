//go:build e2e

package pipelines

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// searching is a step with a project of six commits, of which the fourth made matmul
// slower, and the program.
func searching(t *testing.T) *step {
	t.Helper()
	s := newStep(t)
	s.program(t)
	s.checkout(t, "source")
	for i := range 6 {
		seconds := "1"
		if i >= 3 {
			seconds = "1.5"
		}
		require.NoError(t, os.WriteFile(s.path("source/profile.json"), fmt.Appendf(nil, `{"examples": {"matmul": {"status": "ok", "duration_s": %s, "peak_memory_mb": 1000}}}`, seconds), 0o644))
		s.git(t, "source", "add", ".")
		s.git(t, "source", "commit", "-q", "--allow-empty", "-m", fmt.Sprint("Change ", i))
	}
	s.vars["install-command"] = `echo "installs for $PYTORCH_ROCM_ARCH"; test ! -e broken`
	s.vars["profile-command"] = `cp profile.json "$PROFILE_JSON"`
	s.vars["old"], s.vars["new"] = "HEAD~5", "HEAD"
	return s
}

func (s *step) count(t *testing.T, pattern string) int {
	t.Helper()
	found, err := filepath.Glob(s.path(pattern))
	require.NoError(t, err)
	return len(found)
}

func TestBisectTaskFindsTheCommit(t *testing.T) {
	s := searching(t)
	out := s.passes(t, "bisect")
	culprit := s.git(t, "source", "rev-parse", "--short=12", "HEAD~2")
	require.Contains(t, out, "- `"+culprit+"` `Change 3`\n")
	require.Contains(t, out, "installs for gfx90a\n", "what the command writes is in the build")
	report, err := os.ReadFile(s.path("report/report.md"))
	require.NoError(t, err)
	require.Contains(t, string(report), culprit)
	runs := s.count(t, "kept/profile-*-*.json")
	require.Positive(t, runs)

	// Its output is the next one's input, and so is what the pipeline has kept.
	require.NoError(t, os.Rename(s.path("kept"), s.path("profiles")))
	require.Contains(t, s.passes(t, "bisect"), fmt.Sprintf("%d profiles were there, 0 runs were made", runs))
	require.Equal(t, runs, s.count(t, "kept/profile-*-*.json"))

	// A folder that stays with the unit needs neither.
	require.NoError(t, os.RemoveAll(s.path("profiles")))
	s.env = []string{"KEPT=" + filepath.Join(t.TempDir(), "profiles_rw")}
	s.passes(t, "bisect")
	require.Contains(t, s.passes(t, "bisect"), " 0 runs were made")
}

func TestBisectTaskFailsWithItsReason(t *testing.T) {
	for want, change := range map[string]func(s *step){
		"no example is worse in HEAD than in HEAD~1, or one": func(s *step) { s.vars["old"] = "HEAD~1" },
		"the answer is not clear": func(s *step) {
			s.vars["profile-command"] = `git log -1 --format=%s | grep -qv "Change [234]" && cp profile.json "$PROFILE_JSON"`
		},
		"gpu-baseline exits with 2":           func(s *step) { s.vars["old"] = "nothing" },
		"the command exits with 7":            func(s *step) { s.vars["install-command"] = "exit 7" },
		"PROFILE_COMMAND is empty":            func(s *step) { s.vars["profile-command"] = "" },
		"no program /srv/nothing":             func(s *step) { s.vars["gpu-baseline"] = "/srv/nothing" },
		"the list of architectures is empty;": func(s *step) { s.vars["gfx"] = "" },
		"SEARCH is all; want bisect or ab":    func(s *step) { s.env = []string{"SEARCH=all"} },
	} {
		s := searching(t)
		change(s)
		s.fails(t, "bisect", want)
	}
}

func TestABTaskComparesTwoCommits(t *testing.T) {
	s := searching(t)
	s.vars["new"] = "HEAD~3"
	require.Contains(t, s.passes(t, "ab"), "| `matmul` | not worse |")
	s.vars["new"] = "HEAD"
	s.fails(t, "ab", "HEAD is worse than HEAD~5 by more than the limits")
	s.env = []string{"FLAGS=--max-duration-s 0.6 --max-runs 5"}
	require.Contains(t, s.passes(t, "ab"), "duration +10 % and +0.6 s")
}
