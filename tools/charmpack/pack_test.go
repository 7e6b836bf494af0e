package charmpack

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func pack1(t *testing.T, s Source) []byte {
	t.Helper()
	entries, err := s.Entries()
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, writeZip(&b, entries))
	return b.Bytes()
}

func TestZipKeepsLinksAndRunBits(t *testing.T) {
	data := pack1(t, small(t))
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	modes, content := map[string]fs.FileMode{}, map[string]string{}
	for _, f := range z.File {
		modes[f.Name] = f.Mode()
		r, err := f.Open()
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		content[f.Name] = string(b)
	}
	for name, want := range map[string]fs.FileMode{
		"dispatch": 0o755, "bin/pebble": 0o755, "bin/rocm-exporter": 0o755, "bin/concourse-exporter": 0o755, "bin/gpu-baseline": 0o755, "bin/gpu-device-plugin": 0o755, "bin/gpu-dra-driver": 0o755,
		"bin/runc-amd-wrapper": 0o755, "hooks/install": 0o755, "metadata.yaml": 0o644,
		"src/grafana_dashboards/a.json": 0o644, "src/prometheus_alert_rules/a.yaml": 0o644, "src/loki_alert_rules/a.yaml": 0o644,
		"hooks/db-relation-broken": fs.ModeSymlink | 0o777,
	} {
		require.Equal(t, want, modes[name], name)
	}
	require.Equal(t, "install", content["hooks/config-changed"])
	require.Equal(t, "bases:\n- name: ubuntu\n  channel: \"24.04\"\n  architectures: [amd64]\n- name: ubuntu\n  channel: \"22.04\"\n  architectures: [amd64]\n", content["manifest.yaml"])
	require.Equal(t, "v1.2-3-gabc\n", content["version"])
	require.Equal(t, "0\n", content["revision"])
	require.NotContains(t, content, "charmcraft.yaml")
	require.Len(t, content, 21+len(unitHooks)+5, "the list is fixed: %v", modes)
}

func TestFolderOfAlertRulesOrDashboardsIsNotForgotten(t *testing.T) {
	for _, dir := range folders {
		s := small(t)
		require.NoError(t, os.RemoveAll(filepath.Join(s.Root, dir)))
		_, err := s.Entries()
		require.ErrorContains(t, err, "cannot pack "+dir+": ")
		require.NoError(t, os.Mkdir(filepath.Join(s.Root, dir), 0o755))
		_, err = s.Entries()
		require.ErrorContains(t, err, "cannot pack "+dir+": it is empty")
		put(t, s, dir+"/deeper/a", "")
		_, err = s.Entries()
		require.ErrorContains(t, err, "deeper is not a plain file")
	}
}

func TestSameTreeGivesTheSameBytes(t *testing.T) {
	s := small(t)
	first := pack1(t, s)
	past := epoch.AddDate(20, 0, 0)
	require.NoError(t, os.Chtimes(filepath.Join(s.Root, "README.md"), past, past))
	require.Equal(t, first, pack1(t, s))
}

// D66: the predecessor knew amd64 only.
func TestD66PacksForArm64(t *testing.T) {
	s := small(t)
	s.Arch = "arm64"
	_, err := s.Entries()
	require.ErrorContains(t, err, "it is built for EM_X86_64, not for arm64")
	for _, name := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(s.Bin, name), program(t, elf.EM_AARCH64), 0o755))
	}
	entries, err := s.Entries()
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name == "manifest.yaml" {
			require.Contains(t, string(e.Data), "[arm64]")
		}
	}
}

func TestTreeIsWhatTheZipHolds(t *testing.T) {
	s, dir := small(t), t.TempDir()
	var out bytes.Buffer
	for range 2 { // the second time over the first
		require.Zero(t, Run([]string{"tree", "-root", s.Root, "-bin", s.Bin, "-o", dir}, &out, &out), out.String())
	}
	entries, err := s.Entries()
	require.NoError(t, err)
	for _, e := range entries {
		info, err := os.Lstat(filepath.Join(dir, e.Name))
		require.NoError(t, err)
		require.Equal(t, e.Mode, info.Mode(), e.Name)
	}
	target, err := os.Readlink(filepath.Join(dir, "hooks/start"))
	require.NoError(t, err)
	require.Equal(t, "install", target)
}

func TestRefusesWhatWouldNotRunOnAUnit(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, s *Source)
		want  string
	}{
		{"a program not built", func(t *testing.T, s *Source) {
			require.NoError(t, os.Remove(filepath.Join(s.Bin, "pebble")))
		}, "`make build` makes it"},
		{"a program that needs shared libraries", func(t *testing.T, s *Source) {
			data := program(t, elf.EM_X86_64, elf.PT_LOAD, elf.PT_INTERP)
			require.NoError(t, os.WriteFile(filepath.Join(s.Bin, "dispatch"), data, 0o755))
		}, "cannot pack dispatch: it is linked dynamically"},
		{"a script for a program", func(t *testing.T, s *Source) {
			require.NoError(t, os.WriteFile(filepath.Join(s.Bin, "dispatch"), []byte("#!/bin/sh\n"), 0o755))
		}, "it is no Linux program"},
		{"no license", func(t *testing.T, s *Source) {
			require.NoError(t, os.Remove(filepath.Join(s.Root, "LICENSE")))
		}, "cannot pack LICENSE"},
		{"a hook without its link", func(t *testing.T, s *Source) {
			require.NoError(t, os.Remove(filepath.Join(s.Root, "hooks/db-relation-joined")))
		}, "`make hooks` makes the links"},
		{"a hook that links elsewhere", func(t *testing.T, s *Source) {
			path := filepath.Join(s.Root, "hooks/start")
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Symlink("/etc/passwd", path))
		}, "it links to /etc/passwd"},
		{"an architecture without a platform", func(t *testing.T, s *Source) { s.Arch = "riscv64" }, `"riscv64" is not among the platforms`},
		{"a base without a channel", func(t *testing.T, s *Source) {
			put(t, *s, "charmcraft.yaml", "platforms: {'ubuntu:amd64': }\n")
		}, `"ubuntu:amd64" in charmcraft.yaml is not of the form ubuntu@24.04:amd64`},
		{"a platform that is no map", func(t *testing.T, s *Source) {
			put(t, *s, "charmcraft.yaml", "platforms: {'ubuntu@24.04:amd64': [amd64]}\n")
		}, `cannot parse the platform "ubuntu@24.04:amd64"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := small(t)
			tt.spoil(t, &s)
			_, err := s.Entries()
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestHooksFollowTheMetadata(t *testing.T) {
	s := small(t)
	put(t, s, "metadata.yaml", "name: small\nsummary: s\ndescription: d\nprovides: {web: {interface: http}}\n")
	var out bytes.Buffer
	require.Zero(t, Run([]string{"hooks", "-root", s.Root}, &out, &out), out.String())
	require.NoFileExists(t, filepath.Join(s.Root, "hooks/db-relation-joined"))
	require.Contains(t, out.String(), "hooks/web-relation-joined\n")
	_, err := s.Entries()
	require.NoError(t, err)
}

func TestHasALimit(t *testing.T) {
	require.NoError(t, fits(MaxSize))
	require.ErrorContains(t, fits(MaxSize+1), "45.0 MB is the limit")
}

func TestCommandLine(t *testing.T) {
	s := small(t)
	charm := filepath.Join(t.TempDir(), "small_amd64.charm")
	tests := []struct {
		name string
		args []string
		code int
		text string
	}{
		{"no verb", nil, 2, "charmpack pack|tree|hooks"},
		{"unknown verb", []string{"unpack", "-o", "x"}, 2, "charmpack pack|tree|hooks"},
		{"nowhere to write", []string{"pack"}, 2, "charmpack pack|tree|hooks"},
		{"unknown flag", []string{"pack", "-nosuch"}, 2, "nosuch"},
		{"no tree", []string{"pack", "-root", "/nonexistent", "-o", charm}, 1, "cannot check config.yaml"},
		{"pack", []string{"pack", "-root", s.Root, "-bin", s.Bin, "-o", charm}, 0, "small_amd64.charm: 41 files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, tt.code, Run(tt.args, &out, &out), out.String())
			require.Contains(t, out.String(), tt.text)
		})
	}
	left, err := os.ReadDir(filepath.Dir(charm))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")
}
