package pipelines

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

func TestUnitRunsTheCommands(t *testing.T) {
	s := newStep(t)
	s.checkout(t, "source")
	s.vars["install-command"] = `echo "installs in ${PWD##*/}"`
	s.vars["junit"] = ""
	s.vars["unit-command"] = `echo "compiles for $PYTORCH_ROCM_ARCH and $PROJECT_ARCHES"`
	s.env = []string{"ARCHES_VARIABLE=PROJECT_ARCHES"}
	require.Equal(t, "ROCm: none in /opt/rocm: what Python's packages bring counts\nPython: VERSION\ninstalls in source\ncompiles for gfx90a and gfx90a\n", pythonVersion.ReplaceAllString(s.passes(t, "unit"), "Python: VERSION\n"))

	for want, change := range map[string]func(s *step){
		"UNIT_COMMAND exits with 5":           func(s *step) { s.vars["unit-command"] = "exit 5" },
		"UNIT_COMMAND exits with 1":           func(s *step) { s.vars["unit-command"] = "false; echo passed" },
		"UNIT_COMMAND is empty":               func(s *step) { s.vars["unit-command"] = "" },
		"INSTALL_COMMAND exits with 7":        func(s *step) { s.vars["install-command"] = "exit 7" },
		"the list of architectures is empty;": func(s *step) { s.vars["gfx"] = "" },
	} {
		other := newStep(t)
		require.NoError(t, os.Mkdir(other.path("source"), 0o755))
		change(other)
		other.fails(t, "unit", want)
	}
}

func TestProfileIsKeptUnderItsCommit(t *testing.T) {
	s := newStep(t)
	commit := s.checkout(t, "source")
	s.vars["profile-command"] = `echo '{"examples": {}}' >"$PROFILE_JSON"; echo "compiled for $PYTORCH_ROCM_ARCH"`
	require.Contains(t, s.passes(t, "profile"), "compiled for gfx90a\n")
	require.Regexp(t, `^profile-[0-9]{14}-`+commit[:12]+`\.json$`, filepath.Base(s.one(t, "profile/*")))

	for command, want := range map[string]string{
		`exit 3`:      "PROFILE_COMMAND exits with 3",
		`false; true`: "PROFILE_COMMAND exits with 1",
		`echo '{"examples": {"a": {"status": "oom", "error": "no memory"}}}' >"$PROFILE_JSON"; exit 1`: "a: oom: no memory",
		`true`:                        "PROFILE_COMMAND did not write $PROFILE_JSON",
		` `:                           "PROFILE_COMMAND is empty",
		`echo done >"$PROFILE_JSON"`:  "what PROFILE_COMMAND wrote is no JSON",
		`echo {} >"$PROFILE_JSON"; x`: "PROFILE_COMMAND exits with 127",
	} {
		s.vars["profile-command"] = command
		s.fails(t, "profile", want)
	}
}

// The benchmark that the tutorial has people write.
func TestBenchmarkOfTheTutorialMeasures(t *testing.T) {
	s := hipCheck(t, `{"hip": "6.3", "gpus": [{"name": "AMD Instinct MI210", "arch": "gfx90a"}]}`)
	page, err := os.ReadFile("../../docs/tutorial/rocm-wheel.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "\n```python\n")
	program, _, found := strings.Cut(rest, "\n```\n")
	require.True(t, found)
	project := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(project, "benchmarks"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(project, "benchmarks/measure.py"), []byte(program), 0o644))
	s.checkout(t, "source", project)
	s.vars["profile-command"] = strings.Replace(s.vars["profile-command"], "python3", s.vars["python"], 1)
	require.Contains(t, s.passes(t, "profile"), "measured: profile-")
	text, err := os.ReadFile(s.one(t, "profile/*"))
	require.NoError(t, err)
	require.Regexp(t, `^\{"examples": \{"matmul-1024": \{"status": "ok", "duration_s": [0-9.e-]+, "peak_memory_mb": 64\.0\}, "matmul-4096": \{`, string(text))
}

// What the unit informed of the GPU's clocks is in the profile and in the build.
func TestProfileShowsWhetherItsClocksWereFixed(t *testing.T) {
	const unknown = "this worker does not report whether the GPU was throttled"
	for record, want := range map[string]string{
		"": "this profile counts for little: " + unknown,
		`{"valid": true, "reason": "", "level": "profile_standard", "looked": "2999-01-01T00:00:00Z"}`:                                                                                                                                      "the GPU's clocks were fixed (profile_standard), and it was not throttled",
		`{"valid": false, "reason": "it was throttled: ppt0", "level": "profile_standard", "looked": "2999-01-01T00:00:00Z"}`:                                                                                                               "this profile counts for little: it was throttled: ppt0",
		`{"valid": false, "reason": "long ago", "level": "profile_standard", "looked": "2999-01-01T00:00:00Z", "invalid_spans": [{"from": "2026-01-01T00:00:00.250Z", "to": "2026-01-01T00:00:01.000Z", "reason": "long ago"}]}`:            "the GPU's clocks were fixed (profile_standard), and it was not throttled",
		`{"valid": false, "reason": "long ago", "level": "profile_standard", "looked": "2999-01-01T00:00:00Z", "invalid_spans": [{"from": "2026-01-01T00:00:00.000Z", "to": "2998-01-01T00:00:00.000Z", "reason": "it was throttled: p"}]}`: "this profile counts for little: it was throttled: p",
		`{"valid": false, "reason": "the clocks of its GPUs are not fixed: it gets no GPU", "level": "", "looked": ""}`:                                                                                                                     "this profile counts for little: the clocks of its GPUs are not fixed: it gets no GPU",
	} {
		s := newStep(t)
		s.checkout(t, "source")
		s.vars["profile-command"] = `echo '{"examples": {"a": {"status": "ok"}}}' >"$PROFILE_JSON"`
		if record != "" {
			require.NoError(t, os.WriteFile(s.path("record"), []byte(record+"      \n"), 0o644))
			s.env = append(s.env, "GPU_FIXED_CLOCKS_RECORD="+s.path("record"))
		}
		require.Contains(t, s.passes(t, "profile"), want+"\n")
		data, err := os.ReadFile(s.one(t, "profile/*"))
		require.NoError(t, err)
		var profile struct {
			Examples map[string]any
			Clocks   struct {
				Valid  *bool
				Reason string
			} `json:"fixed_clocks"`
		}
		require.NoError(t, json.Unmarshal(data, &profile))
		require.Len(t, profile.Examples, 1)
		require.Equal(t, strings.Contains(want, "were fixed"), *profile.Clocks.Valid)
		require.Contains(t, want, profile.Clocks.Reason)
	}
}

const (
	before = `{"examples": {"matmul": {"status": "ok", "duration_s": 1, "peak_memory_mb": 1000}}}`
	slower = `{"examples": {"matmul": {"status": "ok", "duration_s": 1.2, "peak_memory_mb": 1000}}}`
	bigger = `{"examples": {"matmul": {"status": "ok", "duration_s": 1, "peak_memory_mb": 1513}}}`
	within = `{"examples": {"matmul": {"status": "ok", "duration_s": 1.1, "peak_memory_mb": 1512}}}`
	failed = `{"examples": {"matmul": {"status": "failed"}}}`
)

// program gives the step gpu-baseline.
func (s *step) program(t *testing.T) {
	t.Helper()
	program := filepath.Join(shared, "gpu-baseline")
	if _, err := os.Stat(program); err != nil {
		require.NoError(t, suite.Build(shared, "./src/gpu-baseline"))
	}
	s.vars["gpu-baseline"] = program
}

// comparing is a step with a profile, a baseline of that name, and the program.
func comparing(t *testing.T, profile, name, baseline string) *step {
	t.Helper()
	s := newStep(t)
	s.program(t)
	for folder, data := range map[string]string{"profile/profile-20261121163000-0123456789ab.json": profile, "baseline/" + name: baseline, "baseline/version": "7"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(s.path(folder)), 0o755))
		require.NoError(t, os.WriteFile(s.path(folder), []byte(data), 0o644))
	}
	return s
}

const stored = "baseline-20261120000000.json"

func (s *step) next(t *testing.T) (name, text string) {
	t.Helper()
	file := s.one(t, "next/*")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return filepath.Base(file), string(data)
}

func TestProfileIsComparedWithTheBaseline(t *testing.T) {
	s := comparing(t, within, stored, before)
	require.Contains(t, s.passes(t, "compare-profile"), "| `matmul` | within |")
	name, text := s.next(t)
	require.Equal(t, stored, name, "the same version of the resource")
	require.Equal(t, before, text)

	s = comparing(t, slower, stored, before)
	s.fails(t, "compare-profile", "worse than baseline/"+stored+" by more than 10 % or 512 MB")
	s.vars["max-duration-pct"] = "25"
	s.passes(t, "compare-profile")

	comparing(t, bigger, stored, before).fails(t, "compare-profile", "peak memory grew by 513 MB")
	comparing(t, failed, stored, before).fails(t, "compare-profile", "it was ok and failed now")
	comparing(t, `{"examples": {"another": {"status": "ok"}}}`, stored, before).fails(t, "compare-profile", "it is in the baseline and missing now")
	comparing(t, `{}`, stored, before).fails(t, "compare-profile", "gpu-baseline exits with 2")
	comparing(t, within, stored, `{"examples": {}}`).fails(t, "compare-profile", "gpu-baseline exits with 2")

	s = comparing(t, within, stored, before)
	s.vars["max-memory-mb"] = ""
	s.fails(t, "compare-profile", "gpu-baseline exits with 2")
}

func TestFirstProfileBecomesTheBaseline(t *testing.T) {
	s := comparing(t, slower, "baseline-0.json", `{"examples": {}}`)
	out := s.passes(t, "compare-profile")
	require.Contains(t, out, "no baseline yet: profile/profile-20261121163000-0123456789ab.json becomes the baseline, and nothing was compared\n")
	name, text := s.next(t)
	require.Regexp(t, `^baseline-[0-9]{14}\.json$`, name)
	require.Equal(t, slower, text)

	for profile, want := range map[string]string{failed: "can't be a baseline: an example failed", `{"examples": {}}`: "can't be a baseline (exit status 2)", "[": "can't be a baseline (exit status 2)"} {
		s := comparing(t, profile, "baseline-0.json", `{"examples": {}}`)
		s.fails(t, "compare-profile", want)
		none, err := filepath.Glob(s.path("next/*"))
		require.NoError(t, err)
		require.Empty(t, none)
	}
}

// A pull request's profile becomes none, whatever is stored.
func TestProfileOfAPullRequestNeverBecomesTheBaseline(t *testing.T) {
	s := comparing(t, slower, "baseline-0.json", `{"examples": {}}`)
	s.env = []string{"ACCEPT=never"}
	require.Contains(t, s.passes(t, "compare-profile"), "no baseline yet: nothing was compared\n")
	require.NoDirExists(t, s.path("next/baseline-0.json"))
	none, err := filepath.Glob(s.path("next/*"))
	require.NoError(t, err)
	require.Empty(t, none)
	require.Contains(t, s.report(t, "comment.md"), "no baseline yet: nothing was compared")

	s = comparing(t, slower, stored, before)
	s.env = []string{"ACCEPT=never"}
	s.fails(t, "compare-profile", "worse than baseline/"+stored)
	require.Contains(t, s.report(t, "comment.md"), "| `matmul` | **beyond** |", "what failed is told")
	_, text := s.next(t)
	require.Equal(t, before, text)
}

func (s *step) report(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(s.path("report", name))
	require.NoError(t, err)
	return string(data)
}

func TestLongReportIsNotAComment(t *testing.T) {
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"%060d": {"status": "ok", "duration_s": 1}`, i))
	}
	profile := `{"examples": {` + strings.Join(many, ", ") + `}}`
	s := comparing(t, profile, stored, profile)
	s.passes(t, "compare-profile")
	require.Equal(t, "**gpu-baseline: OK**: 1000 within; limits: duration +10 %, peak memory +512 MB\n"+
		"The table is in the build's output: it is too long for a comment.\n", s.report(t, "comment.md"))
	require.Greater(t, len(s.report(t, "report.md")), 60000)
}

const (
	another  = `{"examples": {"matmul": {"status": "ok", "duration_s": 0.5, "peak_memory_mb": 1100}, "theirs": {"status": "ok"}}}`
	nvidia   = "nvidia-20261101.json"
	headline = "| example | result | duration (s) | change | peak memory (MB) | change |"
)

// referring is comparing with a reference of that name.
func referring(t *testing.T, profile, name, reference string) *step {
	t.Helper()
	s := comparing(t, profile, stored, before)
	require.NoError(t, os.Mkdir(s.path("reference"), 0o755))
	for file, data := range map[string]string{name: reference, "version": "20261101"} {
		require.NoError(t, os.WriteFile(s.path("reference", file), []byte(data), 0o644))
	}
	return s
}

func TestReferenceIsReportedAndDecidesNothing(t *testing.T) {
	s := referring(t, within, nvidia, another)
	out := s.passes(t, "compare-profile")
	require.Contains(t, out, "With a reference (no limits, it decides nothing):\n")
	require.Contains(t, out, "`profile/profile-20261121163000-0123456789ab.json` compared with the baseline `reference/"+nvidia+"`")
	require.Contains(t, out, "| `matmul` | within | 0.5 → 1.1 | +0.6 s (+120 %) | 1100 → 1512 | +412 MB |\n")
	require.Equal(t, 2, strings.Count(s.report(t, "comment.md"), headline))
	for _, field := range []string{`"duration_delta_s": 0.6`, `"duration_delta_pct": 120`, `"peak_memory_delta_mb": 412`} {
		require.Contains(t, s.report(t, "reference.json"), field)
	}

	listed, err := exec.Command("tar", "-tf", s.one(t, "report/*.tar")).Output()
	require.NoError(t, err)
	require.Equal(t, "profile.json\nreport.md\nreference.json\n", string(listed))

	s = referring(t, failed, nvidia, another)
	s.fails(t, "compare-profile", "worse than baseline/"+stored)
	s = referring(t, within, "nvidia-0.json", `{"examples": {}}`)
	require.NotContains(t, s.passes(t, "compare-profile"), "With a reference", "nothing is stored")
}

func TestReferenceDecidesIfItHasLimits(t *testing.T) {
	s := referring(t, within, nvidia, another)
	s.vars["reference-limits"] = "--max-duration-pct 50 --max-memory-mb 500"
	s.fails(t, "compare-profile", "is worse than the reference reference/"+nvidia+" by more than --max-duration-pct 50 --max-memory-mb 500, or an example failed")
	require.Contains(t, s.report(t, "comment.md"), "duration grew by 120 %; the limit is 50 %")
	s.vars["reference-limits"] = "--max-duration-pct 150"
	s.passes(t, "compare-profile")
	s.vars["reference-limits"] = "--max-speed 9"
	s.fails(t, "compare-profile", "gpu-baseline exits with 2")
	referring(t, within, nvidia, "[").fails(t, "compare-profile", "gpu-baseline exits with 2")
}

func TestAWorseProfileBecomesTheBaselineByHand(t *testing.T) {
	s := comparing(t, slower, stored, before)
	s.env = []string{"ACCEPT=true"}
	require.Contains(t, s.passes(t, "compare-profile"), "accepted: ")
	name, text := s.next(t)
	require.NotEqual(t, stored, name)
	require.Equal(t, slower, text)

	s = comparing(t, failed, stored, before)
	s.env = []string{"ACCEPT=true"}
	s.fails(t, "compare-profile", "an example failed")
}

func TestCompareNeedsItsProgramAndOneFileOfEach(t *testing.T) {
	s := comparing(t, within, stored, before)
	s.vars["gpu-baseline"] = "/srv/nothing/gpu-baseline"
	s.fails(t, "compare-profile", "no program /srv/nothing/gpu-baseline")

	s = comparing(t, within, stored, before)
	require.NoError(t, os.WriteFile(s.path("profile/profile-1-a.json"), []byte(within), 0o644))
	s.fails(t, "compare-profile", "want one file, have: profile/profile-1-a.json profile/profile-2026")

	s = comparing(t, within, "other.json", before)
	s.fails(t, "compare-profile", "want one file, have: baseline/baseline-*.json")
}
