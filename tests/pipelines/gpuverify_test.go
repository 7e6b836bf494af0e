//go:build e2e

package pipelines

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const gpu942 = `{"hip": "6.3", "built": ["gfx90a", "gfx942"], "gpus": [{"name": "AMD Instinct MI300X", "arch": "gfx942"}]}`

// onGPUOf is a step with the wheel, its source and a GPU of gfx942.
func onGPUOf(t *testing.T) *step {
	t.Helper()
	s, _ := built(t)
	require.NoError(t, os.Rename(s.path("built"), s.path("wheels")))
	stand, err := filepath.Abs("testdata/python")
	require.NoError(t, err)
	s.env = []string{"PYTHONPATH=" + stand, "FAKE_TORCH=" + gpu942}
	s.vars["gfx"] = "gfx942"
	s.vars["wheel-command"] = s.vars["python"] + ` -c "import project, os; print('of', os.path.dirname(project.__file__), os.environ['HIP_ARCHES'])"`
	return s
}

func TestWheelRunsOnAGPU(t *testing.T) {
	out := onGPUOf(t).passes(t, "gpu-verify")
	require.Contains(t, out, "GPU 0: AMD Instinct MI300X, gfx942\n")
	require.Regexp(t, `of /tmp/.*/installed/project gfx942\n`, out, "the wheel's, and not that of the checkout beside it")
	require.Contains(t, out, "project-1.2.3+rocm-py3-none-any.whl runs on gfx942\n")
}

func TestWheelThatDoesNotRunOnAGPUFails(t *testing.T) {
	for want, change := range map[string]func(s *step){
		"the wheel is for gfx90a,gfx942 and not for gfx1100: take gfx1100 out of test-on": func(s *step) { s.vars["gfx"] = "gfx1100" },
		"GPU 0 is gfx942, and the architectures to build for are gfx90a":                  func(s *step) { s.vars["gfx"] = "gfx90a" },
		"torch sees no GPU": func(s *step) { s.env[1] = `FAKE_TORCH={"hip": "6.3", "built": ["gfx942"]}` },
		"the wheel was built for gfx90a,gfx942, want gfx942": func(s *step) { s.vars["architectures"] = "gfx942" },
		"WHEEL_COMMAND is empty":                             func(s *step) { s.vars["wheel-command"] = " " },
		"WHEEL_COMMAND exits with 7":                         func(s *step) { s.vars["wheel-command"] = "exit 7" },
		"INSTALL_COMMAND exits with 8":                       func(s *step) { s.vars["install-command"] = "exit 8" },
		"No module named 'another'":                          func(s *step) { s.vars["module"] = "another" },
	} {
		t.Run(want, func(t *testing.T) {
			s := onGPUOf(t)
			change(s)
			s.fails(t, "gpu-verify", want)
		})
	}
}
