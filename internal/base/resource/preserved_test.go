package resource

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

var toolKept = Preserved{Package: tool, Folder: "/etc/theirs", File: "/etc/other/settings.json"}

// theirs lists files of others in the folders that the package's scripts change.
func theirs(t *testing.T, h host.Host) map[string]string {
	hosttest.Put(t, h.Root, "/etc/theirs/a.json", "a")
	hosttest.Put(t, h.Root, "/etc/theirs/sub/b.yaml", "b")
	require.NoError(t, os.Symlink("nowhere", h.Path("/etc/theirs/link")))
	require.NoError(t, unix.Mkfifo(h.Path("/etc/theirs/pipe"), 0o600))
	require.NoError(t, os.Chmod(h.Path("/etc/theirs/sub"), 0o711|fs.ModeSetgid))
	hosttest.Put(t, h.Root, "/etc/other/real.json", "{1}")
	require.NoError(t, os.Chmod(h.Path("/etc/other/real.json"), 0o640))
	require.NoError(t, os.Symlink("real.json", h.Path(toolKept.File)))
	return listed(t, h)
}

func listed(t *testing.T, h host.Host) map[string]string {
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(h.Path("/etc"), func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		st, err := d.Info()
		require.NoError(t, err)
		text := ""
		switch {
		case st.Mode().IsRegular():
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			text = st.ModTime().String() + string(data)
		case st.Mode()&fs.ModeSymlink != 0:
			text, err = os.Readlink(p)
			require.NoError(t, err)
		}
		all[h.Rel(p)] = st.Mode().String() + text
		return nil
	}))
	return all
}

// harm is what the scripts do.
func harm(t *testing.T, h host.Host) {
	require.NoError(t, os.RemoveAll(h.Path("/etc/theirs")))
	require.NoError(t, os.WriteFile(h.Path(toolKept.File), []byte("{}"), 0o600))
}

func TestFilesOfOthersOutliveAPackagesScripts(t *testing.T) {
	for name, end := range map[string]error{"it worked": nil, "it failed": errors.New("exit 1")} {
		h, _ := toolHost(t)
		want := theirs(t, h)
		s := toolKept.wrap(h, plan.Step{Op: "remove", Why: "gone", Do: func(context.Context) error {
			harm(t, h)
			return end
		}})
		require.Equal(t, "gone; /etc/theirs and /etc/other/settings.json are kept as they are", s.Why)
		require.ErrorIs(t, s.Do(context.Background()), end, name)
		require.Equal(t, want, listed(t, h), name)
		p, _, _ := done(t, h, toolKept)
		require.Empty(t, p, "nothing is left to be put back")
	}
}

// A run that is killed ends anywhere: before the scripts, half-way in them, or
// half-way in putting back.
func TestFilesOfOthersOutliveAKilledRun(t *testing.T) {
	for name, killed := range map[string]func(*testing.T, host.Host){
		"before the scripts": func(*testing.T, host.Host) {},
		"in them":            func(t *testing.T, h host.Host) { require.NoError(t, h.Remove("/etc/theirs/a.json")) },
		"after them":         harm,
		"while putting back": func(t *testing.T, h host.Host) {
			harm(t, h)
			require.NoError(t, h.MkdirAll("/etc/theirs/sub", 0o700))
		},
		"before another run was": func(t *testing.T, h host.Host) {
			harm(t, h)
			require.NoError(t, toolKept.save(h.Root), "the older copy is the true one")
		},
	} {
		h, _ := toolHost(t)
		want := theirs(t, h)
		require.NoError(t, toolKept.save(h.Root), name)
		killed(t, h)
		p, _, err := done(t, h, toolKept)
		require.NoError(t, err, name)
		require.Len(t, p, 1)
		require.Equal(t, "put back /etc/theirs and /etc/other/settings.json", p[0].Op)
		have := listed(t, h)
		delete(have, "/etc/other/real.json.found-by-concourse")
		require.Equal(t, want, have, name)
		p, _, _ = done(t, h, toolKept)
		require.Empty(t, p, name)
		left, err := h.Glob("/var/lib/concourse-ci-machine/kept-*")
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// What others wrote after the run was killed is not lost either.
func TestLaterFilesOfOthersStay(t *testing.T) {
	h, _ := toolHost(t)
	theirs(t, h)
	require.NoError(t, toolKept.save(h.Root))
	hosttest.Put(t, h.Root, "/etc/theirs/a.json", "newer")
	hosttest.Put(t, h.Root, "/etc/other/real.json", "newer")
	_, _, err := done(t, h, toolKept)
	require.NoError(t, err)
	text := func(p string) string {
		s, err := h.ReadText(p)
		require.NoError(t, err)
		return s
	}
	require.Equal(t, "newer", text("/etc/theirs/a.json"))
	require.Equal(t, "{1}", text(toolKept.File))
	require.Equal(t, "newer", text("/etc/other/real.json.found-by-concourse"))
}

// A killed hook does not end its apt: what that still deletes comes first.
func TestPuttingBackWaitsForDpkg(t *testing.T) {
	for _, name := range []string{"/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"} {
		h, _ := toolHost(t)
		want := theirs(t, h)
		require.NoError(t, toolKept.save(h.Root))
		harm(t, h)
		hosttest.Put(t, h.Root, name, "")
		f, err := os.OpenFile(h.Path(name), os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorContains(t, toolKept.Restore(ctx, h), "another apt or dpkg is at work")
		require.False(t, h.Exists("/etc/theirs"))
		require.NoError(t, f.Close())
		require.NoError(t, toolKept.Restore(ctx, h))
		have := listed(t, h)
		delete(have, "/etc/other/real.json.found-by-concourse")
		require.Equal(t, want, have)
	}
}

func TestMissingFilesAreNotPreserved(t *testing.T) {
	h, _ := toolHost(t)
	s := toolKept.wrap(h, plan.Step{Do: func(context.Context) error { return nil }})
	require.NoError(t, s.Do(context.Background()))
	require.False(t, h.Exists("/etc"))
}
