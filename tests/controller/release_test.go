//go:build controller

package controller

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// tarball is a release that is being written.
type tarball struct {
	t *testing.T
	*tar.Writer
}

func (b tarball) add(name string, mode int64, data []byte) {
	require.NoError(b.t, b.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg}))
	_, err := b.Write(data)
	require.NoError(b.t, err)
}

func (b tarball) link(name, to string) {
	require.NoError(b.t, b.WriteHeader(&tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}))
}

func (b tarball) dir(name string) {
	require.NoError(b.t, b.WriteHeader(&tar.Header{Name: name + "/", Mode: 0o755, Typeflag: tar.TypeDir}))
}

func (b tarball) file(name, path string) {
	data, err := os.ReadFile(path)
	require.NoError(b.t, err)
	b.add(name, 0o755, data)
}

// compressed is a gzipped tar of what write adds.
func compressed(t *testing.T, write func(tarball)) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	require.NoError(t, err)
	b := tarball{t, tar.NewWriter(z)}
	write(b)
	require.NoError(t, b.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

// standInRelease has this machine's containerd and runc, and in place of Concourse a
// program that starts them as a worker does. The mark makes it another release. It
// returns the name that the charm gives it.
func standInRelease(t *testing.T, file, mark string) string {
	t.Helper()
	bin := t.TempDir()
	build(t, "-o", bin+"/concourse", "./tests/standin/concourse")
	data := compressed(t, func(b tarball) {
		b.file("concourse/bin/concourse", bin+"/concourse")
		systemPrograms(b, "containerd", "containerd-shim-runc-v2", "runc")
		b.add("concourse/resource-types/mock/resource_metadata.json", 0o644, []byte(`{"type":"mock","version":"`+mark+`"}`))
	})
	require.NoError(t, os.WriteFile(file, data, 0o644))
	return fmt.Sprintf("file-%x", sha256.Sum256(data))[:len("file-")+12]
}

func systemPrograms(b tarball, names ...string) {
	for _, name := range names {
		path, err := exec.LookPath(name)
		require.NoError(b.t, err)
		b.file("concourse/bin/"+name, path)
	}
}
