package engines

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const other = "/opt/other/runc-amd-wrapper"

// changes are what a person asks for, one after the other.
var changes = []Request{
	{Wrapper: wrapper}, {Wrapper: wrapper, Default: Set}, {Wrapper: other}, {Wrapper: other, Default: Unset},
	{Wrapper: wrapper, Default: Set},
}

// changed returns a machine with an engine on which the first n changes are done.
func changed(t *testing.T, l life, n int) (h host.Host, pristine string) {
	t.Helper()
	h = machine(t, map[bool]string{true: "dockerd", false: "containerd"}[l.engine == "docker"], l.version)
	hosttest.Put(t, h.Root, other, "#!/bin/sh\n")
	require.NoError(t, os.Chmod(h.Path(other), 0o755))
	hosttest.Put(t, h.Root, "/etc/other", "not ours\n")
	if l.before != "" {
		hosttest.Put(t, h.Root, l.file, l.before)
	}
	pristine = files(t, h)
	for _, r := range changes[:n] {
		r.Engine = l.engine
		do(t, h, r)
	}
	return h, pristine
}

// A run that is killed between any two steps of a change converges when it is run again,
// and --remove gives the file back byte for byte from there, too.
func TestChangeKilledAtEachStepConverges(t *testing.T) {
	kills := 0
	for _, name := range []string{"docker-20-no-file", "docker-25-CDI-is-on", "containerd-1.6-no-file", "containerd-1.7-kubeadm"} {
		l := lives[name]
		for n, r := range changes {
			r.Engine = l.engine
			gone := Request{Engine: l.engine, Remove: true}
			for k := 1; ; k++ {
				h, pristine := changed(t, l, n)
				p := planOf(t, h, r)
				if k >= len(p) {
					break
				}
				for _, s := range p[:k] {
					require.NoError(t, s.Do(context.Background()))
				}
				kills++
				again, _ := changed(t, l, n+1)
				do(t, h, r)
				require.Equal(t, files(t, again), files(t, h), "%s, change %d, kill %d: as without the kill", name, n, k)
				require.Empty(t, planOf(t, h, r))
				records, err := h.Glob(Records + "/*")
				require.NoError(t, err)
				require.Len(t, records, 1)
				text, err := h.ReadText(records[0])
				require.NoError(t, err)
				require.NotContains(t, text, `"previous"`, "%s, change %d, kill %d: of a change that is complete", name, n, k)
				do(t, h, gone)
				require.Equal(t, pristine, files(t, h), "%s, change %d, kill %d", name, n, k)

				h, _ = changed(t, l, n)
				for _, s := range planOf(t, h, r)[:k] {
					require.NoError(t, s.Do(context.Background()))
				}
				removal := planOf(t, h, gone)
				for _, s := range removal[:len(removal)-1] { // killed, too
					require.NoError(t, s.Do(context.Background()))
				}
				do(t, h, gone)
				require.Equal(t, pristine, files(t, h), "%s, change %d, kill %d, then removed", name, n, k)
			}
		}
	}
	require.Equal(t, 36, kills)
}

// What a person adds to the file after such a kill stays, and all of ours goes.
func TestFileEditedAfterAKillLosesOnlyOurParts(t *testing.T) {
	for name, edit := range map[string]struct{ at, add string }{
		"docker-25":                {"\"data-root\"", "\"debug\": true,\n  \"data-root\""},
		"containerd-1.7-kubeadm":   {"# a comment\n", "# a comment\noom_score = -999\n"},
		"containerd-1.6-Debian":    {"version = 2\n", "version = 2\noom_score = -999\n"},
		"containerd-2.1-no-import": {"version = 3\n", "version = 3\noom_score = -999\n"},
	} {
		l := lives[name]
		for n, r := range changes {
			r.Engine = l.engine
			for k := 1; ; k++ {
				h, _ := changed(t, l, n)
				p := planOf(t, h, r)
				if k >= len(p) {
					break
				}
				for _, s := range p[:k] {
					require.NoError(t, s.Do(context.Background()))
				}
				now, err := h.ReadFile(l.file)
				require.NoError(t, err)
				require.Contains(t, string(now), edit.at)
				hosttest.Put(t, h.Root, l.file, strings.Replace(string(now), edit.at, edit.add, 1))
				if k%2 == 0 {
					do(t, h, r)
				}
				require.Contains(t, do(t, h, Request{Engine: l.engine, Remove: true}), "nothing of it is left")
				left, err := h.ReadFile(l.file)
				require.NoError(t, err)
				want := strings.Replace(l.before, edit.at, edit.add, 1)
				require.Equal(t, strings.TrimRight(want, "\n"), strings.TrimRight(string(left), "\n"), "%s, change %d, kill %d",
					name, n, k)
			}
		}
	}
}

// A folder that can't be written is an error, and the file and the record stay as they are.
func TestReadOnlyFolderOfAnEngineIsUnchanged(t *testing.T) {
	for _, name := range []string{"docker-25", "containerd-1.7-kubeadm"} {
		l := lives[name]
		for n, r := range append(changes, Request{Remove: true}) {
			r.Engine = l.engine
			h, _ := changed(t, l, n)
			p := planOf(t, h, r)
			require.NotEmpty(t, p)
			before, record := files(t, h), recordOf(t, h, l.engine)
			done := make(chan error)
			go func() {
				runtime.LockOSThread() // and never unlocks: the thread ends with its mounts
				err := readOnly(h.Path("/etc"))
				if err == nil {
					_, err = p.Apply(context.Background(), nil)
				}
				done <- err
			}()
			err := <-done
			if os.IsPermission(err) && os.Geteuid() != 0 {
				t.Skip("only root can mount")
			}
			require.ErrorIs(t, err, unix.EROFS)
			require.Equal(t, before, files(t, h), "%s, change %d", name, n)
			require.Equal(t, record, recordOf(t, h, l.engine), "%s, change %d", name, n)
			do(t, h, r)
			require.Empty(t, planOf(t, h, r))
		}
	}
}

func recordOf(t *testing.T, h host.Host, engine string) string {
	t.Helper()
	data, err := h.ReadFile(recordPath(engine))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(data)
}

// readOnly makes a folder read-only for the calling thread alone.
func readOnly(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}
