//go:build e2e

package pipelines

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const torchDLLs = "torch*.dll,c10*.dll"

// forWindows is a step with a wheel that has extensions that need HIP's DLL, and a folder
// of ROCm with it. What the scripts do does not depend on the system, so they run on this
// one.
func forWindows(t *testing.T) *step {
	t.Helper()
	s := newStep(t)
	s.checkout(t, "source", "testdata/project")
	rocm := s.path("rocm", "bin")
	require.NoError(t, os.MkdirAll(rocm, 0o755))
	require.NoError(t, os.WriteFile(s.path("extension"), peFile([]string{"amdhip64_7.dll", "torch_cpu.dll", "KERNEL32.dll", "python312.dll"}, nil), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(rocm, "amdhip64_7.dll"), peFile([]string{"amd_comgr0701.dll", "ntdll.dll"}, []string{"DXGI.dll"}), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(rocm, "Amd_Comgr0701.dll"), peFile([]string{"VCRUNTIME140.dll"}, nil), 0o644))
	s.env = []string{"FAKE_PE=" + s.path("extension"), "ALLOWED_DLLS=" + torchDLLs, "ROCM_EXTRA_BIN_DIRS=" + rocm}
	s.vars["allowed-dlls"] = torchDLLs
	return s
}

func TestWheelForWindowsHasTheDLLsItNeeds(t *testing.T) {
	needPython(t, "pip")
	s := forWindows(t)
	out := s.passes(t, "wheel")
	require.Contains(t, out, "bundled: project/amdhip64_7.dll\nbundled: project/Amd_Comgr0701.dll\n", "its own DLLs as well")
	require.NoError(t, os.Rename(s.path("built"), s.path("wheels")))
	require.Contains(t, s.passes(t, "check-dlls"), "project-1.2.3+rocm-py3-none-any.whl has every DLL that it needs\n")

	// pip takes the wheel; its list of files is right.
	wheel := s.one(t, "dist/rocm/*.whl")
	c := exec.Command(needPython(t, ""), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--target", s.path("installed"), wheel)
	text, err := c.CombinedOutput()
	require.NoError(t, err, string(text))
	require.FileExists(t, s.path("installed/project/amdhip64_7.dll"))
	z, err := zip.OpenReader(wheel)
	require.NoError(t, err)
	defer z.Close()
	record, err := fs.ReadFile(z, "project-1.2.3+rocm.dist-info/RECORD")
	require.NoError(t, err)
	dll, err := os.ReadFile(s.path("rocm/bin/amdhip64_7.dll"))
	require.NoError(t, err)
	sum := sha256.Sum256(dll)
	require.Contains(t, string(record), fmt.Sprintf("project/amdhip64_7.dll,sha256=%s,%d\n", base64.RawURLEncoding.EncodeToString(sum[:]), len(dll)))
}

func TestWheelForWindowsWithoutADLLFails(t *testing.T) {
	needPython(t, "pip")
	for want, change := range map[string]func(s *step){
		"project/_C.so needs amdhip64_7.dll, which is not in the wheel": func(s *step) {
			require.NoError(t, os.RemoveAll(s.path("rocm/bin")))
		},
		"project/amdhip64_7.dll needs amd_comgr0701.dll, which is not in the wheel": func(s *step) {
			require.NoError(t, os.Remove(s.path("rocm/bin/Amd_Comgr0701.dll")))
		},
		"project/_C.so needs torch_cpu.dll, which is not in the wheel": func(s *step) {
			s.env = append(s.env, "ALLOWED_DLLS=")
		},
	} {
		t.Run(want, func(t *testing.T) {
			s := forWindows(t)
			change(s)
			s.fails(t, "wheel", want)
		})
	}
}
