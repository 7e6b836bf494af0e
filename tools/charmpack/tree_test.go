package charmpack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// small makes a tree that packs: the least that a charm with one relation needs, and
// programs that are ELF headers and nothing more.
func small(t *testing.T) Source {
	t.Helper()
	s := Source{Root: t.TempDir(), Bin: t.TempDir(), Arch: "amd64", Version: "v1.2-3-gabc"}
	for name, content := range map[string]string{
		"LICENSE":         "the license\n",
		"README.md":       "# small\n",
		"icon.svg":        "<svg/>\n",
		"charmcraft.yaml": "type: charm\nplatforms: {'ubuntu@24.04:amd64': , 'ubuntu@22.04:amd64': , arm: {build-on: ['ubuntu@24.04:amd64'], build-for: ['ubuntu@24.04:arm64']}}\n",
		"metadata.yaml":   "name: small\nsummary: s\ndescription: d\nrequires: {db: {interface: pgsql}}\n",
		"config.yaml":     "options: {port: {type: int, default: 80, description: p}}\n",
		"actions.yaml":    "look: {description: l, additionalProperties: false}\n",
		"lxd-profile.yaml": "config: {security.nesting: \"true\"}\n" +
			"devices: {kfd: {type: unix-char, path: /dev/kfd}}\n",
		"hooks/install":                     "#!/bin/sh\n",
		"src/grafana_dashboards/a.json":     "{}\n",
		"src/prometheus_alert_rules/a.yaml": "groups: []\n",
		"src/loki_alert_rules/a.yaml":       "groups: []\n",
	} {
		put(t, s, name, content)
	}
	require.NoError(t, os.Chmod(filepath.Join(s.Root, "hooks/install"), 0o755))
	for _, name := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(s.Bin, name), program(t, elf.EM_X86_64), 0o755))
	}
	_, err := s.LinkHooks()
	require.NoError(t, err)
	return s
}

func put(t *testing.T, s Source, name, content string) {
	t.Helper()
	path := filepath.Join(s.Root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// program returns an ELF file with one program header for each given type.
func program(t *testing.T, m elf.Machine, types ...elf.ProgType) []byte {
	t.Helper()
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(m), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(types)), Shentsize: 64,
	}
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.LittleEndian, h))
	for _, p := range types {
		require.NoError(t, binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(p)}))
	}
	return b.Bytes()
}
