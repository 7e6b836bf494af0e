package lxdhost

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	_ "embed"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed init.sh
var initScript []byte

// applets are what the container's init and the tests run in it.
var applets = []string{"sh", "sleep", "stat", "id", "ls", "test"}

// TinyImage writes an LXD image, one tar with metadata.yaml and rootfs/, that
// holds Debian's static busybox and an init of a few lines.
func TinyImage(t *testing.T, file string) {
	t.Helper()
	path, err := exec.LookPath("busybox")
	require.NoError(t, err)
	busybox, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := elf.NewFile(bytes.NewReader(busybox))
	require.NoError(t, err)
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "%s is not the one of busybox-static", path)
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write(content)
		require.NoError(t, err)
	}
	add(tar.Header{Name: "metadata.yaml", Mode: 0o644}, []byte("architecture: "+arch+"\ncreation_date: 1\nproperties: {os: busybox}\n"))
	for _, dir := range []string{"", "bin", "sbin", "dev", "proc", "sys", "etc", "root", "run", "tmp"} {
		add(tar.Header{Name: "rootfs/" + dir, Mode: 0o755, Typeflag: tar.TypeDir}, nil)
	}
	add(tar.Header{Name: "rootfs/bin/busybox", Mode: 0o755}, busybox)
	for _, name := range applets {
		add(tar.Header{Name: "rootfs/bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	add(tar.Header{Name: "rootfs/sbin/init", Mode: 0o755}, initScript)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
}
