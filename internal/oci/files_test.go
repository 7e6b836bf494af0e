package oci

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The kernel may take less than all, and then the rest has to follow.
func TestPartsThatAreTakenBitByBitAreWrittenWhole(t *testing.T) {
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
