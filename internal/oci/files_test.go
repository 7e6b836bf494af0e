package oci

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPartsAreWrittenInTheirOrder(t *testing.T) {
	many := make([][]byte, 0, 100)
	for i := range 100 { // more than one call of writev takes
		many = append(many, bytes.Repeat([]byte{byte('a' + i%26)}, i%7))
	}
	for name, parts := range map[string][][]byte{
		"none": nil, "empty": {nil, {}, nil}, "one": {[]byte("x")}, "many": many,
		"empty ones among others": {{}, []byte("a"), nil, []byte("b"), {}},
		"large":                   {bytes.Repeat([]byte("x"), 1<<20), []byte("end")},
	} {
		path := filepath.Join(t.TempDir(), "f")
		f, err := os.Create(path)
		require.NoError(t, err)
		want := string(bytes.Join(parts, nil))
		require.NoError(t, writeParts(int(f.Fd()), parts), name)
		require.NoError(t, f.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, want == string(got), name)
	}
}

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
	parts := [][]byte{bytes.Repeat([]byte("a"), 300_000), []byte("b"), bytes.Repeat([]byte("c"), 300_000)}
	want := bytes.Join(parts, nil)
	require.NoError(t, writeParts(fds[1], parts))
	require.NoError(t, unix.Close(fds[1]))
	require.True(t, bytes.Equal(want, <-got))
	for at := range 8 {
		left := skip([][]byte{[]byte("abc"), nil, []byte("de"), []byte("fg")}, at)
		require.Equal(t, "abcdefg"[at:], string(bytes.Join(left, nil)))
	}
}

func TestPartsOnAFullDiskAreAnError(t *testing.T) {
	fd, err := unix.Open("/dev/full", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.ErrorIs(t, writeParts(fd, [][]byte{[]byte("a"), []byte("b")}), unix.ENOSPC)
	require.ErrorIs(t, writeAll(fd, []byte("a")), unix.ENOSPC)
}

// Two owners of the same bytes would mix one file with another.
func TestMemoryIsHandedOutOnce(t *testing.T) {
	for _, mem := range []*memory{newMemory(), new(memory)} {
		var all [][]byte
		for i, n := range []int{0, 10, largest - 20, 5, 30, 5, 1} {
			b := mem.take(n)
			require.Len(t, b, n)
			for k := range b {
				require.Zero(t, b[k])
				b[k] = byte(i)
			}
			all = append(all, append(b, 99)[:n]) // what is added must not run into the next
		}
		rest := append(mem.rest(), 77)
		all = append(all, mem.take(3), append(mem.rest(), 66))
		require.Equal(t, byte(77), rest[0])
		for i, b := range all[:7] {
			require.Equal(t, strings.Repeat(string(rune(i)), len(b)), string(b))
		}
		require.Equal(t, []byte{0, 0, 0}, all[7])
		first, second := append(room(&mem.paths, 2), "a"), append(room(&mem.paths, 2), "b")
		require.Equal(t, []string{"a", "b"}, []string{first[0], second[0]})
		require.Empty(t, room(&mem.rules, 1000))
	}
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
