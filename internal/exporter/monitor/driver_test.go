package monitor

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// module returns a file of a module with a section .modinfo.
func module(t testing.TB, modinfo string) string {
	const names = "\x00.shstrtab\x00.modinfo\x00"
	h := elf.Header64{Type: 1, Machine: 62, Version: 1, Shoff: 64, Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 1}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var b bytes.Buffer
	for _, part := range []any{h, []elf.Section64{{},
		{Name: 1, Type: 3, Off: 256, Size: uint64(len(names))},
		{Name: 11, Type: 1, Off: 256 + uint64(len(names)), Size: uint64(len(modinfo))},
	}, []byte(names + modinfo)} {
		require.NoError(t, binary.Write(&b, binary.LittleEndian, part))
	}
	return b.String()
}

func TestModuleOnDiskWithOtherSourcesIsNotTheLoadedOne(t *testing.T) {
	const dir = "/lib/modules/6.8.0-45-generic/"
	for name, c := range map[string]struct {
		file string
		same bool
	}{
		"the loaded one":       {module(t, "license=GPL\x00srcversion=ABC\x00depends=drm\x00"), true},
		"a newer one":          {module(t, "srcversion=ABCD\x00"), false},
		"one without":          {module(t, "license=GPL\x00"), true},
		"a compressed one":     {"\x28\xb5\x2f\xfd srcversion=X", true},
		"one that is cut off":  {module(t, "srcversion=X\x00")[:200], true},
		"an empty one":         {"", true},
		"text with its number": {"srcversion=X\x00", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"})
			hosttest.Put(t, r, "/proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
			hosttest.Put(t, r, "/sys/module/amdgpu/srcversion", "ABC\n")
			hosttest.Put(t, r, dir+"modules.dep", "kernel/amdgpu.ko:\n")
			hosttest.Put(t, r, dir+"kernel/amdgpu.ko", c.file)
			require.Equal(t, Module{fromKernel, fromKernel, c.same}, readModule(r))
		})
	}
}

func FuzzModinfo(f *testing.F) {
	f.Add([]byte(module(f, "srcversion=ABC\x00")))
	f.Fuzz(func(t *testing.T, file []byte) {
		require.LessOrEqual(t, len(modinfo(bytes.NewReader(file))), len(file))
	})
}
