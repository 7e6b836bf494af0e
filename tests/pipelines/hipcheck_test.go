package pipelines

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func hipCheck(t *testing.T, torch string) *step {
	t.Helper()
	s := newStep(t)
	stand, err := filepath.Abs("testdata/python")
	require.NoError(t, err)
	s.env = []string{"PYTHONPATH=" + stand, "FAKE_TORCH=" + torch}
	return s
}

func TestHIPCheckShowsWhatThereIs(t *testing.T) {
	s := hipCheck(t, `{"hip": "6.3.42134", "version": "2.6.0+rocm6.3", "built": ["gfx90a:sramecc+:xnack-", "gfx90a", "gfx942"],
		"gpus": [{"name": "AMD Instinct MI210", "arch": "gfx90a:sramecc+:xnack-"}, {"name": "AMD Instinct MI300X", "arch": "gfx942"}]}`)
	require.Equal(t, "ROCm: none in /opt/rocm: what Python's packages bring counts\nPython: VERSION\nHIP runtime: 6.3.42134 (torch 2.6.0+rocm6.3)\n"+
		"torch is built for: gfx90a gfx942\n"+
		"GPU 0: AMD Instinct MI210, gfx90a\n"+
		"GPU 1: AMD Instinct MI300X, gfx942\n", pythonVersion.ReplaceAllString(s.passes(t, "hip-check"), "Python: VERSION\n"))
}

// tests/concourse tells the stand-in that way what each worker has.
func TestStandInForTorchReadsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sees.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"hip": "6.3", "built": ["gfx90a"], "gpus": [{"name": "MI210", "arch": "gfx90a"}]}`), 0o644))
	require.Contains(t, hipCheck(t, "@"+file).passes(t, "hip-check"), "GPU 0: MI210, gfx90a\n")
}

var pythonVersion = regexp.MustCompile(`(?m)^Python: 3\.\d+\.\d+ \(/.+\)\n`)

// Each before what the image has, and what is not there or no path is reported.
func TestExtraFoldersComeFirst(t *testing.T) {
	s := newStep(t)
	bin := t.TempDir()
	s.vars["unit-command"] = `echo "$PATH $LD_LIBRARY_PATH"`
	require.NoError(t, os.Mkdir(s.path("source"), 0o755))
	s.env = []string{"ROCM_EXTRA_BIN_DIRS=" + bin + ":/not/here:/usr/sbin", "ROCM_EXTRA_LIB_DIRS=/usr/lib", "LD_LIBRARY_PATH=/lib"}
	out := s.passes(t, "unit")
	require.Contains(t, out, bin+":/usr/sbin:/usr/local/bin:/usr/bin:/bin /usr/lib:/lib\n")
	require.Contains(t, out, "ROCM_EXTRA_BIN_DIRS: there is no folder /not/here on this machine\n")
	s.env = []string{"ROCM_EXTRA_LIB_DIRS=lib"}
	s.fails(t, "unit", "ROCM_EXTRA_LIB_DIRS has 'lib', which is no absolute path")
}

func TestHIPCheckTakesTheWorkersWordIfTorchIsTooOld(t *testing.T) {
	s := hipCheck(t, `{"hip": "5.2", "gpus": [{"name": "AMD Instinct MI210"}]}`)
	s.env = append(s.env, "HIP_ARCHES=gfx90a")
	out := s.passes(t, "hip-check")
	require.Contains(t, out, "torch is too old to list the architectures")
	require.Contains(t, out, "GPU 0: AMD Instinct MI210, gfx90a\n")
}

func TestHIPCheckFails(t *testing.T) {
	const gpu = `"hip": "6.3", "built": ["gfx90a"], "gpus": [{"name": "MI210", "arch": "gfx90a"}]`
	for name, row := range map[string]struct{ torch, archs, worker, want string }{
		"no GPU":                   {torch: `{"hip": "6.3", "built": ["gfx90a"]}`, want: "torch sees no GPU"},
		"a torch for CUDA":         {torch: `{"version": "2.6.0+cu124", "gpus": [{"name": "H100"}]}`, want: "torch 2.6.0+cu124 was built without HIP"},
		"built for nothing":        {torch: `{"hip": "6.3", "built": [], "gpus": [{"name": "MI210", "arch": "gfx90a"}]}`, want: "torch lists no architecture"},
		"built for something odd":  {torch: `{"hip": "6.3", "built": ["sm_90"], "gpus": [{"name": "MI210", "arch": "gfx90a"}]}`, want: "'sm_90' is no architecture"},
		"nobody names the GPU":     {torch: `{"hip": "5.2", "built": ["gfx90a"], "gpus": [{"name": "MI210"}]}`, want: "the worker sets no HIP_ARCHES"},
		"the worker has several":   {torch: `{"hip": "5.2", "built": ["gfx90a"], "gpus": [{"name": "MI210"}]}`, worker: "gfx90a,gfx942", want: "the worker has several: gfx90a,gfx942"},
		"an empty name of the GPU": {torch: `{"hip": "6.3", "built": ["gfx90a"], "gpus": [{"name": "MI210", "arch": ""}]}`, want: "too old to name the GPU's architecture"},
		"it does not compute":      {torch: `{"hip": "6.3", "built": ["gfx90a"], "gpus": [{"name": "MI210", "arch": "gfx90a", "error": "invalid device function"}]}`, want: "cuda:0 does not compute: invalid device function"},
		"it computes wrongly":      {torch: `{"hip": "6.3", "built": ["gfx90a"], "gpus": [{"name": "MI210", "arch": "gfx90a", "sum": 7}]}`, want: "1024 sums of 1+1 are 7"},
		"the second does not":      {torch: `{"hip": "6.3", "built": ["gfx90a"], "gpus": [{"name": "MI210", "arch": "gfx90a"}, {"name": "MI210", "arch": "gfx90a", "error": "hung"}]}`, want: "cuda:1 does not compute: hung"},
		"another is built for":     {torch: "{" + gpu + "}", archs: "gfx1100", want: "GPU 0 is gfx90a, and the architectures to build for are gfx1100"},
		"nothing is built for":     {torch: "{" + gpu + "}", archs: " , ", want: "the list of architectures is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := hipCheck(t, row.torch)
			if row.archs != "" {
				s.vars["architectures"] = row.archs
			}
			if row.worker != "" {
				s.env = append(s.env, "HIP_ARCHES="+row.worker)
			}
			s.fails(t, "hip-check", row.want)
		})
	}
	t.Run("no torch", func(t *testing.T) {
		s := newStep(t)
		s.env = []string{"PYTHONNOUSERSITE=1"}
		if exec.Command(s.vars["python"], "-c", "import torch").Run() == nil {
			t.Skip("this machine has PyTorch")
		}
		s.fails(t, "hip-check", "the image has no PyTorch")
	})
}

func TestArchitecturesAreOneListInTheirOrder(t *testing.T) {
	program := needPython(t, "")
	for text, want := range map[string]string{
		"gfx90a":         "export PYTORCH_ROCM_ARCH=gfx90a\nexport HIP_ARCHES=gfx90a",
		"gfx942,gfx90a":  "export PYTORCH_ROCM_ARCH='gfx942;gfx90a'\nexport HIP_ARCHES=gfx942,gfx90a",
		"gfx942; gfx90a": "export PYTORCH_ROCM_ARCH='gfx942;gfx90a'\nexport HIP_ARCHES=gfx942,gfx90a",
		"gfx90a:sramecc+:xnack-,gfx942,gfx90a,gfx90a:xnack+": "export PYTORCH_ROCM_ARCH='gfx90a;gfx942'\nexport HIP_ARCHES=gfx90a,gfx942",
		"GFX1100\ngfx1102 ": "export PYTORCH_ROCM_ARCH='gfx1100;gfx1102'\nexport HIP_ARCHES=gfx1100,gfx1102",
		"":                  "FAILED: the list of architectures is empty; name those to build for, such as gfx90a,gfx942",
		";,":                "FAILED: the list of architectures is empty; name those to build for, such as gfx90a,gfx942",
		"gfx90a,native":     "FAILED: 'native' is no architecture of a GPU, such as gfx90a",
		"gfx11-generic":     "FAILED: 'gfx11-generic' is no architecture of a GPU, such as gfx90a",
		"gfx90a,:xnack+":    "FAILED: ':xnack+' is no architecture of a GPU, such as gfx90a",
	} {
		out, err := exec.Command(program, dir+"/tasks/rocm/rocm_arches.py", "export", text).CombinedOutput()
		require.Equal(t, want+"\n", string(out), text)
		require.Equal(t, want[:6] == "FAILED", err != nil, text)
	}
}

// A project has its own name for the list, and one of the two separators.
func TestListHasTheProjectsName(t *testing.T) {
	program := needPython(t, "")
	for name, want := range map[string]string{
		"NUNCHAKU_HIP_ARCHES": "export NUNCHAKU_HIP_ARCHES=gfx90a,gfx942\n",
		"MY_ARCHES;":          "export MY_ARCHES='gfx90a;gfx942'\n",
		"HIP_ARCHES;":         "export HIP_ARCHES='gfx90a;gfx942'\n",
		"A-B":                 "FAILED: ARCHES_VARIABLE is 'A-B'; want the name of a variable",
		"A=$(reboot)":         "FAILED: ARCHES_VARIABLE is 'A=$(reboot)'; want the name of a variable",
	} {
		c := exec.Command(program, dir+"/tasks/rocm/rocm_arches.py", "export", "gfx90a,gfx942")
		c.Env = append(os.Environ(), "ARCHES_VARIABLE="+name)
		out, err := c.CombinedOutput()
		require.Contains(t, string(out), want, name)
		require.Equal(t, want[:6] == "FAILED", err != nil, name)
	}
}
