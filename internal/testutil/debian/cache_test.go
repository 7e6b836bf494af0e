package debian

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func write(text string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	}
}

func TestCacheHasWholeFilesOnly(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	_, err := Cached("a.tar", func(f *os.File) error {
		return errors.Join(write("half")(f), errors.New("no mirror"))
	})
	require.EqualError(t, err, "no mirror")
	dir := filepath.Join(home, "concourse-ci-machine-tests")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	path, err := Cached("a.tar", func(f *os.File) error { // while another program makes the same
		_, err := Cached("a.tar", write("other"))
		return errors.Join(err, write("whole")(f))
	})
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "whole", string(got))
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)

	again, err := Cached("a.tar", func(*os.File) error { return errors.New("made twice") })
	require.NoError(t, err)
	require.Equal(t, path, again)
}

func TestCacheWithoutAHomeIsATemporaryFolder(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	t.Setenv("TMPDIR", tmp)
	path, err := Cached("a.tar", write("whole"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(tmp, "concourse-ci-machine-tests", "a.tar"), path)
}

// Another user may have been there first.
func TestCacheIsNotALinkOfAnother(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(home, "concourse-ci-machine-tests")))
	_, err := Cached("a.tar", write("whole"))
	require.ErrorContains(t, err, "it is not a folder of this user's; remove it")
}
