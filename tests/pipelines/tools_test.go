package pipelines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tools puts programs into a folder; each prints its name and arguments.
func tools(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"sh", "cat", "chmod", "echo", "mktemp", "rm", "sed", "tr"} { // this machine may have ROCm's own
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	for _, name := range names {
		script := "#!/bin/sh\necho \"" + name + ": $*\"\n"
		if name == "hipcc" || name == "amdclang++" { // what is compiled runs and does nothing
			script += "while [ $# -gt 0 ]; do [ \"$1\" != -o ] || { echo '#!/bin/sh' >\"$2\"; chmod +x \"$2\"; }; shift; done\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	return dir
}

// AMD removes rocm-smi and hipcc from its images; amd-smi and amdclang++ take their places.
func TestVerifyROCmToolsTakesTheToolsOfTheImage(t *testing.T) {
	for name, c := range map[string]struct {
		tools []string
		archs string
		code  int
		want  []string
	}{
		"old":      {[]string{"rocminfo", "rocm-smi", "hipcc"}, "gfx90a,gfx942", 0, []string{"rocm-smi: --showproductname\n", "hipcc: --offload-arch=gfx90a --offload-arch=gfx942 -o "}},
		"new":      {[]string{"rocminfo", "amd-smi", "amdclang++"}, "gfx942", 0, []string{"amd-smi: list\n", "amdclang++: -x hip --offload-arch=gfx942 --hip-link -o "}},
		"no list":  {[]string{"rocminfo", "amd-smi", "amdclang++"}, "", 0, []string{"amdclang++: -x hip --offload-arch=native --hip-link -o "}},
		"no smi":   {[]string{"rocminfo", "hipcc"}, "", 1, []string{"FAILED: the image has no rocm-smi or amd-smi; take one of ROCm"}},
		"no clang": {[]string{"rocminfo", "amd-smi"}, "", 1, []string{"FAILED: the image has no hipcc or amdclang++; take one of ROCm"}},
		"no info":  {[]string{"amd-smi", "amdclang++"}, "", 1, []string{"FAILED: the image has no rocminfo; take one of ROCm"}},
	} {
		dir, tmp := tools(t, c.tools...), t.TempDir()
		out, code := run(t, "verify-rocm-tools", asIs, "HIP_ARCHES="+c.archs, "PATH="+dir, "TMPDIR="+tmp)
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, name)
		require.Equal(t, c.code, code, "%s: %s", name, out)
		for _, want := range c.want {
			require.Contains(t, out, want, name)
		}
		if code == 0 {
			require.Contains(t, out, fmt.Sprintf("uses %s/%s and %s/%s\n", dir, c.tools[1], dir, c.tools[2]), name)
		}
	}
}

// Python's packages of ROCm have no /opt/rocm.
func TestROCmOfPythonsPackagesIsUsed(t *testing.T) {
	s := newStep(t)
	s.checkout(t, "source")
	s.vars["unit-command"] = `echo "in $ROCM_PATH, $HIP_PATH, ${PATH%%:*}, $LD_LIBRARY_PATH"`
	packages, sdk := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(packages, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("rocm_sdk/__init__.py", "")
	write("rocm_sdk/__main__.py", fmt.Sprintf("import sys\nprint({'path': %q, 'version': '7.14.0'}[sys.argv[1]])\n", sdk))
	s.env = []string{"PYTHONPATH=" + packages}
	out := s.passes(t, "unit")
	require.Contains(t, out, "ROCm: 7.14.0 of Python's packages in "+sdk+"\n")
	require.Contains(t, out, fmt.Sprintf("in %s, %s, %s/bin, %s/lib\n", sdk, sdk, sdk, sdk))

	// The runtime alone can't name a folder with compilers.
	write("rocm_sdk/__main__.py", "import sys\nsys.exit(1)\n")
	write("_rocm_sdk_core/__init__.py", "")
	out = s.passes(t, "unit")
	core := filepath.Join(packages, "_rocm_sdk_core")
	require.Contains(t, out, "ROCm: of unknown release of Python's packages in "+core+"\n")

	// What the operator sets stays.
	s.env = append(s.env, "ROCM_PATH="+t.TempDir())
	require.NotContains(t, s.passes(t, "unit"), core)
}
