//go:build e2e

package engines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A container of Podman has a record while it leases a GPU, with its exit status if Podman keeps it.
func TestContainersOfPodmanHaveRecords(t *testing.T) {
	needPackage(t, "podman", "podman")
	describe(t)
	p := podman{root: filepath.Join(dir, "podman"), runRoot: "/run/podman-test"}
	p.load(t)
	l := exclusive(t)
	root := hosttest.Host(t, "amd") // its GPU has the name of the first lease
	for at, to := range map[string]string{"/proc": "/proc", "/run": "/run", "/sys/fs/cgroup": "/sys/fs/cgroup"} {
		require.NoError(t, os.RemoveAll(root.Path(at)))
		require.NoError(t, os.MkdirAll(filepath.Dir(root.Path(at)), 0o755))
		require.NoError(t, os.Symlink(to, root.Path(at)))
	}
	store := taskrecord.Store{Dir: root.Path(taskrecord.DefaultDir)}
	rec, err := recorder.New(recorder.Options{Root: root, Every: 500 * time.Millisecond, GPUs: 100 * time.Millisecond,
		Limits: taskrecord.Limits{Bytes: 64 << 20, Age: time.Hour, FailedAge: time.Hour}, Log: t.Logf})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		words, script string
		ending        taskrecord.Ending
		kind          verdict.Kind
	}{
		"fails":    {"", "sleep 3; exit 7", taskrecord.Exited, verdict.Container},
		"succeeds": {"", "sleep 3", taskrecord.Exited, ""},
		"is removed at once, or kept until it is seen": {"--rm", "sleep 3", "", ""},
	} {
		words := strings.Fields("--runtime " + wrapper() + " run --detach --network none -e AMD_VISIBLE_DEVICES=0 " +
			c.words + " gpu-test /bin/sh -c")
		out, err := p.run(append(words, c.script)...)
		require.NoError(t, err, out)
		id := strings.TrimSpace(out)
		for end := time.Now().Add(2 * time.Minute); !store.Ended(id); time.Sleep(20 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "%s: the record does not end", name)
			require.NoError(t, rec.Look(t.Context()))
		}
		f, err := store.Find(id[:12])
		require.NoError(t, err)
		r, err := f.Read()
		require.NoError(t, err)
		t.Logf("%s: %+v, last %v", name, r.End, r.Machine[len(r.Machine)-1])
		require.Equal(t, lease.Container, r.Head.Kind)
		require.Equal(t, "podman", r.Head.Engine)
		require.Equal(t, l.GPUs[0], r.Head.GPUs[0].Name)
		require.NotEmpty(t, r.GPUs[l.GPUs[0]])
		require.Positive(t, r.Machine[1].Value(taskrecord.Processes), name)
		require.Equal(t, c.kind != "", r.Failed(), name)
		require.Equal(t, c.kind, verdict.Decide(&r).Kind, name)
		if c.ending != "" {
			require.Equal(t, c.ending, r.End.Ending, name)
		}
	}
}
