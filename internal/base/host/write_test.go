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

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
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

func TestFileThatCannotReplaceAFolderIsRemoved(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/etc/key/file", "")
	w, err := r.Create("/etc/key", 0o600)
	require.NoError(t, err)
	require.Error(t, w.Commit())
	require.Equal(t, []string{"key"}, names(t, r, "/etc"))
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

// other starts another process of this test and returns when it has said seven
// letters; see TestMain.
func other(t *testing.T, what string, r host.Root) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self, what, string(r))
	in, err := c.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { in.Close() })
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = io.ReadFull(out, make([]byte, 7))
	require.NoError(t, err)
	return c
}

const secretPath = "/var/lib/concourse/config.env"

// What a killed write leaves holds a secret, and is another one each time.
func TestKilledWriteLeavesNothingToTheNextOne(t *testing.T) {
	for name, next := range map[string]struct {
		do   func(r host.Root) error
		left []string
	}{
		"write":  {func(r host.Root) error { return r.WriteFile(secretPath, []byte("new"), 0o600) }, []string{"config.env"}},
		"remove": {func(r host.Root) error { return r.Remove(secretPath) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			mine := []string{".config.env.bak~", ".config.env.1", "config.env.1~", ".config.env.old.12~"}
			for _, file := range mine {
				hosttest.Put(t, r, filepath.Join(filepath.Dir(secretPath), file), "mine")
			}
			for range 2 {
				killed := other(t, "write", r)
				require.NoError(t, killed.Process.Kill())
				require.Error(t, killed.Wait())
			}
			working := other(t, "write", r)
			before := names(t, r, filepath.Dir(secretPath))
			require.NoError(t, next.do(r))
			after := names(t, r, filepath.Dir(secretPath))
			require.Len(t, before, len(mine)+1, "each takes the last one's away")
			require.Len(t, after, len(mine)+1+len(next.left), "who still writes keeps his own: %v", after)
			require.Subset(t, after, append(mine, next.left...))
			require.NoError(t, working.Process.Kill())
			require.Error(t, working.Wait())
			require.NoError(t, next.do(r))
			require.ElementsMatch(t, append(mine, next.left...), names(t, r, filepath.Dir(secretPath)))
		})
	}
}

func TestWritesOfOneFileAtOnceAllSucceed(t *testing.T) {
	r := hosttest.Root(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				if err := r.WriteFile("/run/report", []byte(strings.Repeat(string(rune('a'+i)), 100)), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := r.ReadFile("/run/report")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat(string(got[:1]), 100), string(got))
	require.Equal(t, []string{"report"}, names(t, r, "/run"))
}

func TestDirectoriesHaveTheirModeWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(old) })
	r := hosttest.Root(t)
	require.NoError(t, os.Mkdir(r.Path("/opt"), 0o700))
	require.NoError(t, r.MkdirAll("/opt/concourse/bin", 0o755))
	require.NoError(t, r.MkdirAll("/opt/concourse/bin", 0o700), "it is there")
	require.NoError(t, r.WriteFile("/srv/a/b/file", nil, 0o644))
	require.NoError(t, os.Symlink("opt", r.Path("/link")))
	require.NoError(t, r.MkdirAll("/link/below", 0o755))
	require.NoError(t, r.MkdirAll("/var/shared/private", 0o700))
	for path, want := range map[string]os.FileMode{"/var/shared": 0o755, "/var/shared/private": 0o700,
		"/opt": 0o700, "/opt/concourse": 0o755, "/opt/concourse/bin": 0o755, "/opt/below": 0o755,
		"/srv": 0o755, "/srv/a/b": 0o755} {
		st, err := r.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, st.Mode().Perm(), path)
	}
	hosttest.Put(t, r, "/file", "")
	require.ErrorIs(t, r.MkdirAll("/file/below", 0o755), syscall.EEXIST)
}

func TestLockIsGivenBackWhenItsHolderIsKilled(t *testing.T) {
	r := hosttest.Root(t)
	holder := other(t, "lock", r)
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
