package pipelines

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

type measured struct {
	Examples map[string]struct {
		Status   string
		Error    string
		Duration *float64 `json:"duration_s"`
		Memory   *float64 `json:"peak_memory_mb"`
	}
}

// measuring runs measure.py in a folder with these files.
func measuring(t *testing.T, files map[string]string, args ...string) (m measured, out string, code int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	script, err := filepath.Abs("../../pipelines/tasks/rocm/measure.py")
	require.NoError(t, err)
	stand, err := filepath.Abs("testdata/python")
	require.NoError(t, err)
	profile := filepath.Join(dir, "profile.json")
	c := exec.Command(needPython(t, ""), append([]string{script}, args...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "PROFILE_JSON="+profile, "PYTHONPATH="+stand, "PYTHONDONTWRITEBYTECODE=1",
		`FAKE_TORCH={"hip": "6.3", "gpus": [{"name": "AMD Instinct MI210", "arch": "gfx90a"}]}`)
	text, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	data, err := os.ReadFile(profile)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &m), string(data))
	}
	return m, string(text), c.ProcessState.ExitCode()
}

func TestMeasureTakesScriptsCallablesCommandsAndLists(t *testing.T) {
	m, out, code := measuring(t, map[string]string{
		"examples/a.py":     "import sys, torch\nassert sys.argv[1:] == ['--n', '4'], sys.argv\nassert __name__ == '__main__'\n",
		"bench/cases.py":    "def run(n='1'):\n    assert n == '2'\n",
		"examples/list.txt": "# what CI measures\nexamples/a.py --n 4\n\n@more.txt\n",
		"examples/more.txt": "bench.cases:run 2\n",
	}, "--times", "2", "@examples/list.txt", "sleeps=sleep 0")
	require.Zero(t, code, out)
	require.Len(t, m.Examples, 3)
	for name, want := range map[string]bool{"examples/a.py --n 4": true, "bench.cases:run 2": false, "sleeps": false} {
		one := m.Examples[name]
		require.Equal(t, "ok", one.Status, name)
		require.NotNil(t, one.Duration, name)
		if want { // of torch, which only this example imports
			require.Equal(t, 64.0, *one.Memory)
		}
	}
}

func TestMeasureKeepsTheErrorOfAnExampleAndFails(t *testing.T) {
	m, out, code := measuring(t, map[string]string{
		"raises.py": "raise RuntimeError('out of memory')\n", "exits.py": "import sys; sys.exit('no weights')\n",
		"three.py": "import sys; sys.exit(3)\n", "ok.py": "import sys; sys.exit(0)\n",
	}, "raises.py", "exits.py", "three.py", "ok.py", "dies=sh -c 'kill -9 $$'", "false=false", "missing.module:f")
	require.Equal(t, 1, code, out)
	for name, want := range map[string]string{
		"raises.py": "RuntimeError: out of memory", "exits.py": "no weights", "three.py": "exits with 3", "dies": "ended by signal 9",
		"false": "exits with 1", "missing.module:f": "ModuleNotFoundError: No module named 'missing'",
	} {
		require.Equal(t, "failed", m.Examples[name].Status, name)
		require.Equal(t, want, m.Examples[name].Error, name)
	}
	require.Equal(t, "ok", m.Examples["ok.py"].Status)
	require.Contains(t, out, "raises.py: failed, RuntimeError: out of memory\n")
}

func TestMeasureRefusesInvalidExamples(t *testing.T) {
	for want, args := range map[string][]string{
		"'bench' is no example; want a script.py": {"bench"},
		"list.txt lists itself":                   {"@list.txt"},
		"the lists name no example":               {"@empty.txt"},
		"No such file or directory: ":             {"@nothing.txt"},
		"the example 'a' is listed twice":         {"a=true", "a=true"},
		"want --output, or PROFILE_JSON":          {"--times", "0", "a=true"},
	} {
		_, out, code := measuring(t, map[string]string{"list.txt": "@list.txt\n", "empty.txt": "# nothing\n"}, args...)
		require.NotZero(t, code, want)
		require.Contains(t, out, want)
	}
}

// Of a program that has no torch, the memory that is in use on the task's GPUs grows.
func TestMeasureLooksAtTheMemoryOfTheGPUs(t *testing.T) {
	dir := t.TempDir()
	used := filepath.Join(dir, "sys/class/drm/renderD128/device/mem_info_vram_used")
	require.NoError(t, os.MkdirAll(filepath.Dir(used), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dev/dri"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dev/dri/renderD128"), nil, 0o644))
	require.NoError(t, os.WriteFile(used, []byte("1000000\n"), 0o644))
	// The program ends when its growth was seen, so no time is assumed.
	program := `
import measure, os, sys
root, used = sys.argv[1:]
measure.SYS, measure.DEV = root + "/sys", root + "/dev"
with measure.Growth() as growth:
    with open(used + ".new", "w") as f:
        f.write("513000000\n")
    os.replace(used + ".new", used)
    while (growth.peak or 0) < 512000000:
        pass
print(growth.peak / 1e6)
`
	c := exec.Command(needPython(t, ""), "-c", program, dir, used)
	scripts, err := filepath.Abs("../../pipelines/tasks/rocm")
	require.NoError(t, err)
	c.Env = append(os.Environ(), "PYTHONPATH="+scripts, "PYTHONDONTWRITEBYTECODE=1")
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "512.0\n", string(out))
}

// The first GPU draws 100 W, then 300 W for a second; the second die of a package has 0.
func TestMeasureIntegratesThePowerOfTheGPUs(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"sys/class/drm/renderD128/device/hwmon/hwmon3/power1_average": "100000000\n",
		"sys/class/drm/renderD128/device/hwmon/hwmon3/power1_cap":     "560000000\n",
		"sys/class/drm/renderD129/device/hwmon/hwmon4/power1_average": "0\n",
		"sys/class/drm/renderD128/device/mem_info_vram_used":          "1\n",
		"dev/dri/renderD128": "", "dev/dri/renderD129": "",
	} {
		p := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
	program := `
import measure, sys, types
root = sys.argv[1]
measure.SYS, measure.DEV = root + "/sys", root + "/dev"
with measure.Growth() as growth:
    pass
assert growth.joules > 0
clock = 0
measure.time = types.SimpleNamespace(perf_counter=lambda: clock)
growth.joules = growth._last = None
growth._look()
with open(root + "/sys/class/drm/renderD128/device/hwmon/hwmon3/power1_average", "w") as f:
    f.write("300000000\n")
for clock in 1, 2:
    growth._look()
print(growth.joules)
`
	c := exec.Command(needPython(t, ""), "-c", program, dir)
	scripts, err := filepath.Abs("../../pipelines/tasks/rocm")
	require.NoError(t, err)
	c.Env = append(os.Environ(), "PYTHONPATH="+scripts, "PYTHONDONTWRITEBYTECODE=1")
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "500.0\n", string(out), "200 J of the change, and 300 J")
}
