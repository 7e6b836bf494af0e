package oci

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// D47: temporary files stayed in bundles.
func TestReplaceKeepsModeAndLeavesNothingMore(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	old, err := os.Open(b.path("bundle/config.json"))
	require.NoError(t, err)
	defer old.Close()
	require.NoError(t, os.Chmod(b.path("bundle/config.json"), 0o604))
	require.NoError(t, b.create())
	st, err := os.Stat(b.path("bundle/config.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o604), st.Mode().Perm())
	was, err := old.Stat()
	require.NoError(t, err)
	require.False(t, os.SameFile(st, was), "a reader of the old file never sees half of the new one")
	entries, err := os.ReadDir(b.path("bundle"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestOddBundlesAreRefused(t *testing.T) {
	config := "bundle/config.json"
	for want, change := range map[string]func(t *testing.T, b *testbed){
		"cannot open bundle": func(t *testing.T, b *testbed) {
			require.NoError(t, os.Rename(b.path("bundle"), b.path("real")))
			require.NoError(t, os.Symlink(b.path("real"), b.path("bundle")))
		},
		"too many levels of symbolic links": func(t *testing.T, b *testbed) {
			require.NoError(t, os.Rename(b.path(config), b.path("real")))
			require.NoError(t, os.Symlink(b.path("real"), b.path(config)))
		},
		"it is not a regular file": func(t *testing.T, b *testbed) {
			require.NoError(t, os.Remove(b.path(config)))
			require.NoError(t, unix.Mkfifo(b.path(config), 0o600))
		},
		"more than the 16777216 allowed": func(t *testing.T,
			b *testbed) {
			require.NoError(t, os.Truncate(b.path(config), maxFile+1))
		},
		"no such file or directory": func(t *testing.T,
			b *testbed) {
			require.NoError(t, os.Remove(b.path(config)))
		},
		"it ends too early": func(t *testing.T,
			b *testbed) {
			require.NoError(t, os.Truncate(b.path(config), 500))
		},
		"it is null, not an object":           func(t *testing.T, b *testbed) { b.put(t, config, "null") },
		"nests deeper than 100 levels":        func(t *testing.T, b *testbed) { b.put(t, config, strings.Repeat(`{"a":`, 20000)) },
		"mounts: it is an object, not a list": func(t *testing.T, b *testbed) { b.put(t, config, `{"mounts":{}}`) },
		"cannot use bundle":                   func(t *testing.T, b *testbed) { needsRoot(t); b.euid = 4242 },
	} {
		t.Run(want, func(t *testing.T) {
			b := newTestbed(t)
			b.bundle(t, "task")
			change(t, b)
			require.ErrorContains(t, b.create(), want)
			require.Nil(t, b.argv)
		})
	}
}

// A trailing slash must not make the last link of the path be followed.
func TestLinkWithTrailingSlashIsRefused(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	require.NoError(t, os.Symlink(b.path("bundle"), b.path("link")))
	require.ErrorContains(t, b.call("create", "-b", b.path("link")+"/", "c1"), "cannot open bundle")
}

// The kernel may take less than all, and then the rest must follow.
func TestPartialWritesAreContinued(t *testing.T) {
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	r := os.NewFile(uintptr(fds[0]), "r")
	defer r.Close()
	got := make(chan []byte)
	go func() {
		var all bytes.Buffer
		_, _ = all.ReadFrom(r) // what is missing shows below
		got <- all.Bytes()
	}()
	parts := [][]byte{bytes.Repeat([]byte("a"), 300_000), nil, []byte("b"), bytes.Repeat([]byte("c"), 300_000)}
	require.NoError(t, writeAll(fds[1], parts...))
	require.NoError(t, unix.Close(fds[1]))
	require.True(t, bytes.Equal(bytes.Join(parts, nil), <-got))
}

func TestFullDiskIsAnError(t *testing.T) {
	fd, err := unix.Open("/dev/full", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.ErrorIs(t, writeAll(fd, []byte("a")), unix.ENOSPC)
}

func TestReplacedConfigIsAsOpenAsBeforeWhateverTheUmask(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	for _, mode := range []os.FileMode{0o600, 0o604, 0o640, 0o644, 0o666} {
		b := newTestbed(t)
		b.bundle(t, "task")
		require.NoError(t, os.Chmod(b.path("bundle/config.json"), mode))
		require.NoError(t, b.create())
		require.Contains(t, b.text(t), "renderD128")
		st, err := os.Stat(b.path("bundle/config.json"))
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm())
	}
}

func TestFolderAbovePrivateOnesIsOpenToAllWhateverTheUmask(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	dir := t.TempDir()
	require.NoError(t, privateDir(dir+"/run/wrapper", uint32(os.Geteuid())))
	for path, want := range map[string]os.FileMode{"/run": 0o755, "/run/wrapper": 0o700} {
		st, err := os.Stat(dir + path)
		require.NoError(t, err)
		require.Equal(t, want, st.Mode().Perm(), path)
	}
}
