package pipelines

import (
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bundleOf is clang's offload bundle with entries of these names.
func bundleOf(names ...string) string {
	b := binary.LittleEndian.AppendUint64([]byte("__CLANG_OFFLOAD_BUNDLE__"), uint64(len(names)))
	for _, n := range names {
		b = binary.LittleEndian.AppendUint64(b, 4096)
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(n))), n...)
	}
	return string(b)
}

// A library is anybody's bytes: what only looks like a bundle is none.
func TestArchitecturesAreReadFromBundles(t *testing.T) {
	program := needPython(t, "")
	scripts, err := filepath.Abs(dir + "/tasks/rocm")
	require.NoError(t, err)
	const host, gfx90a, gfx942 = "host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "hipv4-amdgcn-amd-amdhsa--gfx942"
	good := bundleOf(host, gfx90a, gfx942)
	for name, row := range map[string]struct{ data, want string }{
		"one":                    {good, "gfx90a gfx942"},
		"several":                {"x" + bundleOf(host, gfx942) + "\x00" + good, "gfx942 gfx90a"},
		"older names":            {bundleOf("host-x86_64-unknown-linux-gnu", "hip-amdgcn-amd-amdhsa-gfx906"), "gfx906"},
		"portable code":          {bundleOf(host, "hip-spirv64-amd-amdhsa--amdgcnspirv", gfx90a), "gfx90a"},
		"OpenMP":                 {bundleOf(host, "openmp-amdgcn-amd-amdhsa--gfx90a"), ""},
		"the host alone":         {bundleOf(host), ""},
		"no entries":             {bundleOf(), ""},
		"only the word":          {"__CLANG_OFFLOAD_BUNDLE__", ""},
		"the word in a text":     {"__CLANG_OFFLOAD_BUNDLE__ is what a bundle begins with, and this is none", ""},
		"cut off in a name":      {good[:len(good)-3], ""},
		"cut off in a number":    {good[:40], ""},
		"a name that is not one": {strings.Replace(good, "hipv4", "h\xffpv4", 1), ""},
		"more entries than are":  {strings.Replace(good, "BUNDLE__\x03", "BUNDLE__\x04", 1), ""},
		"a name too long":        {strings.Replace(good, "\x1e\x00", "\x1e\xff", 1), ""},
		"nothing":                {"", ""},
	} {
		c := exec.Command(program, "-c", "import sys, rocm_wheel; print(' '.join(rocm_wheel.architectures(sys.stdin.buffer.read())))")
		c.Env = []string{"PYTHONPATH=" + scripts, "PYTHONDONTWRITEBYTECODE=1"}
		c.Stdin = strings.NewReader(row.data)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		require.Equal(t, row.want+"\n", string(out), name)
	}
}
