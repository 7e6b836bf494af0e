package host_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
)

func names(t *testing.T, r host.Root, dir string) (all []string) {
	t.Helper()
	entries, err := r.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestWriteFileHasItsModeWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(old) })
	r := hosttest.Root(t)
	for _, mode := range []os.FileMode{0o600, 0o644, 0o755} {
		require.NoError(t, r.WriteFile("/etc/a/x", []byte("x"), mode))
		st, err := r.Stat("/etc/a/x")
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode())
	}
	require.Equal(t, []string{"x"}, names(t, r, "/etc/a"))
}

func TestFileIsSecretFromItsFirstByteAndUnnamedUntilCommit(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/etc/key", "old")
	w, err := r.Create("/etc/key", 0o644)
	require.NoError(t, err)
	_, err = w.Write([]byte("new"))
	require.NoError(t, err)
	st, err := w.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	text, err := r.ReadText("/etc/key")
	require.NoError(t, err)
	require.Equal(t, "old", text)
	require.NoError(t, w.Commit())
	w.Cancel()
	text, err = r.ReadText("/etc/key")
	require.NoError(t, err)
	require.Equal(t, "new", text)
	require.Error(t, w.Commit(), "only once")
	require.Equal(t, []string{"key"}, names(t, r, "/etc"))
}

func TestCancelledFileLeavesTheOldOne(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/etc/key", "old")
	w, err := r.Create("/etc/key", 0o600)
	require.NoError(t, err)
	w.Cancel()
	w.Cancel()
	require.Equal(t, []string{"key"}, names(t, r, "/etc"))

	broken := errors.New("connection reset")
	err = r.CopyFile("/etc/key", io.MultiReader(strings.NewReader("ne"), failing{broken}), 0o600)
	require.ErrorIs(t, err, broken)
	require.Equal(t, []string{"key"}, names(t, r, "/etc"))
	text, err := r.ReadText("/etc/key")
	require.NoError(t, err)
	require.Equal(t, "old", text)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestWriteReplacesALinkAndNotItsTarget(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/etc/shadow", "precious")
	require.NoError(t, os.Symlink("shadow", r.Path("/etc/link")))
	require.NoError(t, r.WriteFile("/etc/link", []byte("x"), 0o600))
	text, err := r.ReadText("/etc/shadow")
	require.NoError(t, err)
	require.Equal(t, "precious", text)
}

func TestReadersNeverSeeHalfAFile(t *testing.T) {
	r := hosttest.Root(t)
	one, two := strings.Repeat("1", 1<<16), strings.Repeat("2", 1<<15)
	require.NoError(t, r.WriteFile("/x", []byte(one), 0o600))
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 200 {
			text := one
			if i%2 == 0 {
				text = two
			}
			if err := r.WriteFile("/x", []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		got, err := r.ReadFile("/x")
		require.NoError(t, err)
		require.True(t, string(got) == one || string(got) == two, "%d bytes", len(got))
	}
	wg.Wait()
}

const lockPath = "/run/charm/lock"

func TestLockIsGivenBackWhenItsHolderIsKilled(t *testing.T) {
	r := hosttest.Root(t)
	self, err := os.Executable()
	require.NoError(t, err)
	holder := exec.Command(self, "lock", string(r))
	in, err := holder.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { in.Close() })
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	said := make([]byte, 7)
	_, err = io.ReadFull(out, said)
	require.NoError(t, err)

	f, err := os.Open(r.Path(lockPath))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	require.ErrorIs(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)

	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	free, err := r.Lock(lockPath)
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
	free()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	st, err := r.Stat(filepath.Dir(lockPath))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
}

func TestLockLetsOneInAtATime(t *testing.T) {
	r := hosttest.Root(t)
	var wg sync.WaitGroup
	inside, most := make(chan struct{}, 8), 0
	for range 8 {
		wg.Go(func() {
			free, err := r.Lock(lockPath)
			if err != nil {
				t.Error(err)
				return
			}
			inside <- struct{}{}
			most = max(most, len(inside)) // guarded by the lock itself
			<-inside
			free()
		})
	}
	wg.Wait()
	require.Equal(t, 1, most)
}
