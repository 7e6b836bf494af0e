// Package fly finds fly, Concourse's client, for the tests that ask it what it
// makes of a page's commands and of a pipeline. It downloads nothing.
package fly

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Program is fly of the release in $CONCOURSE_RELEASE: unpacked beside its other files, or
// in the archive that the web hands out. Without that variable it is fly on PATH. The test
// is skipped if none exists.
func Program(t testing.TB) string {
	t.Helper()
	release := os.Getenv("CONCOURSE_RELEASE")
	if release == "" {
		path, err := exec.LookPath("fly")
		if err != nil {
			t.Skip("needs fly: put it on PATH, or set CONCOURSE_RELEASE to the folder of a Concourse release")
		}
		return path
	}
	archive := filepath.Join(release, "fly-assets", "fly-linux-"+runtime.GOARCH+".tgz")
	f, err := os.Open(archive)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // it may be the tarball
		path, err := exec.LookPath(filepath.Join(release, "fly"))
		if err != nil {
			t.Skipf("needs fly: CONCOURSE_RELEASE has neither fly nor %s", archive)
		}
		return path
	}
	require.NoError(t, err)
	defer f.Close()
	path := filepath.Join(t.TempDir(), "fly")
	require.NoError(t, unpack(f, path), archive)
	return path
}

// unpack writes fly of an archive.
func unpack(archive io.Reader, path string) error {
	z, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("there is no fly in it")
		}
		if err != nil {
			return err
		}
		if filepath.Base(h.Name) != "fly" {
			continue
		}
		out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		return errors.Join(err, out.Close())
	}
}
