package pipelines

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// githubPython runs a Python program that imports the scripts of GitHub's workflow.
func githubPython(t *testing.T, program, stdin string) string {
	t.Helper()
	c := exec.Command(needPython(t, ""), "-c", program)
	scripts, err := filepath.Abs(filepath.Join(dir, "github"))
	require.NoError(t, err)
	c.Env = append(os.Environ(), "PYTHONPATH="+scripts, "PYTHONDONTWRITEBYTECODE=1")
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// githubScript runs a script of GitHub's workflow in a workspace.
func githubScript(t *testing.T, workspace, name string, args []string, env ...string) (out string, code int) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(dir, "github", name))
	require.NoError(t, err)
	argv := append([]string{needPython(t, ""), path}, args...)
	if strings.HasSuffix(name, ".sh") {
		argv = []string{"sh", path}
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = workspace
	c.Env = append([]string{"PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"}, env...)
	text, err := c.CombinedOutput()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return string(text), c.ProcessState.ExitCode()
}

func put(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

func text(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

// Lines as compilers, shells, Python and the scripts write them.
func TestCausesOfFailedStepsAreNamed(t *testing.T) {
	rows := [][2]string{
		{"/bin/sh: 1: hipcc: not found", "The HIP compiler is missing"},
		{"'hipcc' is not recognized as an internal or external command,", "The HIP compiler is missing"},
		{"FileNotFoundError: No such file or directory: '/opt/rocm/bin/hipcc'", "The HIP compiler is missing"},
		{"FAILED: torch sees no GPU; has the step the tags gpu and compute-runtime=rocm", "torch sees no GPU"},
		{"FAILED: the image has no PyTorch (No module named 'torch'); take one of ROCm", "torch is not for ROCm"},
		{"FAILED: torch 2.6.0+cpu was built without HIP; take an image of ROCm", "torch is not for ROCm"},
		{"FAILED: cuda:0 does not compute: HIP error: invalid device function", "torch has no code for this GPU"},
		{"FAILED: GPU 0 is gfx1100, and the architectures to build for are gfx942", "The runner has another GPU"},
		{"/usr/bin/ld: cannot find -lhipblaslt: No such file or directory", "rocBLASLt is missing"},
		{"CMake Error: Could not find a package configuration file provided by \"hipblaslt\"", "rocBLASLt is missing"},
		{"ImportError: libhipblaslt.so.0: cannot open shared object file", "rocBLASLt is missing"},
		{"sh: 1: rocminfo: not found", "The list of HIP targets is empty"},
		{"RuntimeError: HIP targets list is empty", "The list of HIP targets is empty"},
		{"AssertionError: nunchaku.has_block_sparse_attention", "Block-sparse attention is disabled"},
		{"FAILED: PROFILE_COMMAND exits with 1", "An example failed"},
		{"FAILED: profile.json is worse than baseline.json by more", "The profile is worse than the baseline"},
		{"FAILED: UNIT_COMMAND exits with 1", "A test failed"},
		{"FAILED: WHEEL_COMMAND exits with 1", "A test with the wheel failed"},
		{"FAILED: INSTALL_COMMAND exits with 1", "The dependencies do not install"},
		{"FAILED: project/_C.so has no code for gfx942", "The wheel has other GPU code"},
		{"FAILED: project/_C.pyd needs hip.dll, which is not in the wheel: add", "A DLL is missing in the wheel"},
		{"collected 12 items", "None"},
		{"FAILED tests/test_hipcc.py::test_compiles", "None"},
	}
	var lines, want []string
	titles := map[string]bool{}
	for _, r := range rows {
		lines, want = append(lines, r[0]), append(want, r[1])
		titles[r[1]] = true
	}
	out := githubPython(t, `import sys, step
for line in sys.stdin:
    print(next((title for pattern, title, _ in step.CAUSES if pattern.search(line)), None))
print(len(step.CAUSES))`, strings.Join(lines, "\n"))
	got := strings.Split(strings.TrimSpace(out), "\n")
	require.Equal(t, want, got[:len(got)-1])
	require.Equal(t, fmt.Sprint(len(titles)-1), got[len(got)-1], "a line for each cause")
}

func TestStepExplainsItsFailure(t *testing.T) {
	w := t.TempDir()
	output := filepath.Join(w, "output")
	fails := put(t, `import sys
print('hipcc: not found, 100%')
sys.exit('FAILED: INSTALL_COMMAND exits with 127')
`, w, "fails.py")
	out, code := githubScript(t, w, "step.py", []string{fails}, "GITHUB_OUTPUT="+output)
	require.Equal(t, 1, code)
	require.Contains(t, out, "hipcc: not found, 100%\n")
	require.Contains(t, out, "\n::error title=The HIP compiler is missing::INSTALL_COMMAND exits with 127%0A")
	require.Regexp(t, `^python=3\.[0-9]+\n$`, text(t, output))

	silent := put(t, "import sys\nsys.exit(9)\n", w, "silent.py")
	out, code = githubScript(t, w, "step.py", []string{silent})
	require.Equal(t, 1, code)
	require.Contains(t, out, "::error title="+silent+" failed::exit status 9%0A")

	passes := put(t, "print('FAILED: UNIT_COMMAND exits with 1')\n", w, "passes.py")
	out, code = githubScript(t, w, "step.py", []string{passes})
	require.Zero(t, code)
	require.NotContains(t, out, "::error")
}

func TestAnnotationsStayOneLine(t *testing.T) {
	require.Equal(t, "::error title=a%3A b%2C 50%25::c%0D%0A::set-output%25\n", githubPython(t, `import annotations
annotations.annotate("error", "a: b, 50%", "c\r\n::set-output%")`, ""))
}

// Each row is a machine that differs by one fact from one that has all.
func TestPreflightOfTheRunnersMachine(t *testing.T) {
	both := map[string]any{"python": "3.12.3", "total": 500e9, "free": 300e9, "rocm": "/opt/rocm", "venv": true,
		"git":   "git version 2.43.0",
		"cmake": "cmake version 3.28.3", "ninja": "1.11.1", "hipcc": "/opt/rocm/bin/hipcc", "unreached": []string{}}
	linux := map[string]any{"system": "Linux", "os": "Ubuntu 22.04.5 LTS", "id": "ubuntu", "memory": 67.3e9,
		"denied": []string{}, "gpu": true,
		"rocminfo": "/opt/rocm/bin/rocminfo", "libraries": []string{}}
	windows := map[string]any{"system": "Windows", "os": "Windows-11-10.0.22631-SP0", "build": 22631,
		"memory": 33.9e9, "build_tools": "17.14.36408.4", "runtime": true}
	for _, row := range []struct {
		machine     map[string]any
		fact        string
		value       any
		name, level string
	}{
		{linux, "id", "ubuntu", "", ""},
		{windows, "id", "", "", ""},
		{linux, "id", "debian", "system", "warning"},
		{linux, "denied", []string{"/dev/kfd"}, "GPU", "warning"},
		{linux, "gpu", false, "GPU", "warning"},
		{linux, "rocm", "", "ROCm", "warning"},
		{linux, "libraries", []string{"hipblaslt"}, "ROCm's libraries", "warning"},
		{linux, "rocminfo", "", "rocminfo", "warning"},
		{linux, "memory", 33e9, "memory", "warning"},
		{windows, "memory", 16e9, "memory", "warning"},
		{linux, "total", 100e9, "disk", "warning"},
		{linux, "free", 10e9, "disk", "error"},
		{linux, "python", "3.9.18", "Python", "error"},
		{linux, "venv", false, "venv", "error"},
		{windows, "build", 19045, "system", "error"},
		{windows, "build_tools", "16.11.1", "Visual Studio Build Tools", "warning"},
		{windows, "build_tools", "", "Visual Studio Build Tools", "warning"},
		{windows, "runtime", false, "GPU", "warning"},
		{windows, "hipcc", "", "hipcc", "warning"},
		{windows, "git", "", "Git", "warning"},
		{windows, "cmake", "cmake version 3.25.9", "CMake", "warning"},
		{windows, "ninja", "", "Ninja", "warning"},
		{linux, "unreached", []string{"pypi.org"}, "HTTPS", "warning"},
	} {
		facts := map[string]any{}
		for _, from := range []map[string]any{both, row.machine, {row.fact: row.value}} {
			for k, v := range from {
				facts[k] = v
			}
		}
		data, err := json.Marshal(facts)
		require.NoError(t, err)
		out := githubPython(t, `import json, sys, preflight
for name, level, text, fix in preflight.rows(json.load(sys.stdin)):
    assert text and (level == "ok") == (fix == ""), name
    if level != "ok":
        print(name, level, sep=":")`, string(data))
		want := ""
		if row.name != "" {
			want = row.name + ":" + row.level + "\n"
		}
		require.Equal(t, want, out, "%s: %v", row.fact, row.value)
	}
}

func TestPreflightReadsThisMachine(t *testing.T) {
	summary := filepath.Join(t.TempDir(), "summary")
	out, _ := githubScript(t, t.TempDir(), "preflight.py", nil, "GITHUB_STEP_SUMMARY="+summary,
		"https_proxy=http://127.0.0.1:9")
	require.NotContains(t, out, "Traceback")
	require.Contains(t, out, "HTTPS: no answer of github.com, pypi.org, repo.radeon.com\n")
	require.Contains(t, text(t, summary), "| Python | ")
}

func TestWorkspaceIsPreparedForAJob(t *testing.T) {
	w, rocm := t.TempDir(), t.TempDir()
	put(t, "of the job before", w, "wheels", "old.tar")
	put(t, "of the job before", w, "built", "old.tar")
	put(t, "", w, "source", "setup.py")
	put(t, "7.0.2\n", rocm, ".info", "version")
	path, env := filepath.Join(w, "path"), filepath.Join(w, "env")
	out, code := githubScript(t, w, "prepare.py", nil, "RUNNER_ROCM_PATH="+rocm, "GITHUB_PATH="+path, "GITHUB_ENV="+env)
	require.Zero(t, code, out)
	require.Equal(t, "ROCm: 7.0.2 in "+rocm+"\n", out)
	require.NoDirExists(t, filepath.Join(w, "wheels"))
	require.NoFileExists(t, filepath.Join(w, "built", "old.tar"))
	require.DirExists(t, filepath.Join(w, "built"))
	require.FileExists(t, filepath.Join(w, "source", "setup.py"))
	require.Equal(t, rocm+"/bin\n", text(t, path))
	require.Equal(t, "ROCM_PATH="+rocm+"\nROCM_HOME="+rocm+"\nHIP_PATH="+rocm+"\n", text(t, env))

	for _, wrong := range []string{"/missing", "opt/rocm", rocm + "\nLD_PRELOAD=x"} {
		out, code = githubScript(t, w, "prepare.py", nil, "RUNNER_ROCM_PATH="+wrong)
		require.Equal(t, 1, code)
		require.Contains(t, out, "FAILED: the variable ROCM_PATH is ")
		require.Regexp(t, `(?m)^::error title=.*::the variable ROCM_PATH is .*$`, out)
	}
}

const profileOfOne = `{"examples": {"a|b\n# c": {"status": "ok", "duration_s": 1.5, "peak_memory_mb": 8}}}`

func TestProfileIsReported(t *testing.T) {
	w := t.TempDir()
	put(t, profileOfOne, w, "profile", "profile-20261129120000-0123456789ab.json")
	require.NoError(t, os.Mkdir(filepath.Join(w, "report"), 0o755))
	summary := filepath.Join(w, "summary")
	out, code := githubScript(t, w, "report.py", nil, "GITHUB_STEP_SUMMARY="+summary)
	require.Zero(t, code, out)
	require.Equal(t, "| example | status | seconds | MB |\n|---|---|---|---|\n| a?b?? c | ok | 1.5 | 8 |\n",
		text(t, summary))
	f, err := os.Open(filepath.Join(w, "report/report-20261129120000-0123456789ab.tar"))
	require.NoError(t, err)
	defer f.Close()
	archive := tar.NewReader(f)
	for _, want := range []string{"profile.json", "report.md"} { // as prepare_release.py reads them
		h, err := archive.Next()
		require.NoError(t, err)
		require.Equal(t, want, h.Name)
		_, err = io.Copy(io.Discard, archive)
		require.NoError(t, err)
	}

	put(t, "{}", w, "profile", "profile-20261129120000-0123456789ab.json")
	out, code = githubScript(t, w, "report.py", nil)
	require.Equal(t, 1, code)
	require.Equal(t, "FAILED: 'examples'\n", out)
}

func TestProfileOnGitHubIsComparedWithAFileOfTheProject(t *testing.T) {
	for baseline, want := range map[string]string{
		"":          "no baseline yet: nothing was compared\n",
		"good.json": "| `matmul` | within |",
		"fast.json": "is worse than baseline/baseline-1.json by more than 10 % or 512 MB",
		"none.json": "FAILED: [Errno 2] No such file or directory: 'source/none.json'\n",
	} {
		s := comparing(t, within, "baseline-0.json", "{}")
		require.NoError(t, os.RemoveAll(s.path("baseline")))
		require.NoError(t, os.Mkdir(s.path("report"), 0o755))
		put(t, before, s.path("source/good.json"))
		put(t, strings.ReplaceAll(before, `"duration_s": 1,`, `"duration_s": 0.5,`), s.path("source/fast.json"))
		out, code := githubScript(t, s.path(), "report.py", nil, "GPU_BASELINE="+s.vars["gpu-baseline"],
			"BASELINE="+baseline, "MAX_DURATION_PCT=10", "MAX_MEMORY_MB=512")
		require.Contains(t, out, want, baseline)
		require.Equal(t, baseline == "fast.json" || baseline == "none.json", code == 1, baseline)
	}
}
