package fly

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

const standIn = "#!/bin/sh\necho fly\n"

// archive is a gzipped tar with one file.
func archive(t *testing.T, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(standIn)), Typeflag: tar.TypeReg}))
	_, err := w.Write([]byte(standIn))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

func TestProgramIsFromTheReleaseOrOnPATH(t *testing.T) {
	asset := "fly-assets/fly-linux-" + runtime.GOARCH + ".tgz"
	for name, c := range map[string]struct {
		file string // in the folder
		data []byte
		env  string // names the folder
	}{
		"in the release's archive":  {asset, archive(t, "./fly"), "CONCOURSE_RELEASE"},
		"in the folder itself":      {"fly", []byte(standIn), "CONCOURSE_RELEASE"},
		"on PATH, without releases": {"fly", []byte(standIn), "PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.file)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, c.data, 0o755))
			t.Setenv("CONCOURSE_RELEASE", "")
			t.Setenv(c.env, dir)
			out, err := exec.Command(Program(t)).Output()
			require.NoError(t, err)
			require.Equal(t, "fly\n", string(out))
		})
	}
}

func TestProgramIsMissed(t *testing.T) {
	tarball := filepath.Join(t.TempDir(), "concourse.tgz")
	require.NoError(t, os.WriteFile(tarball, archive(t, "concourse/bin/concourse"), 0o644))
	for name, release := range map[string]string{"no release": "", "a release without fly": t.TempDir(), "a tarball": tarball} {
		skipped := false
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv("CONCOURSE_RELEASE", release)
			seen := &skips{TB: t}
			done := make(chan struct{})
			go func() { // as a test does, it ends its goroutine
				defer close(done)
				Program(seen)
			}()
			<-done
			skipped = seen.skipped
		})
		require.True(t, skipped, name)
	}
	require.EqualError(t, unpack(bytes.NewReader(archive(t, "LICENSE")), filepath.Join(t.TempDir(), "fly")), "there is no fly in it")
}

// skips notes that a test was to be skipped.
type skips struct {
	testing.TB
	skipped bool
}

func (s *skips) Skip(...any)          { s.skipped = true; runtime.Goexit() }
func (s *skips) Skipf(string, ...any) { s.skipped = true; runtime.Goexit() }
