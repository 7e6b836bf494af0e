//go:build e2e

package engines

import (
	"context"
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

// A container of Podman has a record while it leases a GPU, with its exit status.
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
	rec, err := recorder.New(recorder.Options{Root: root, Limits: taskrecord.Limits{Bytes: 64 << 20, Age: time.Hour, FailedAge: time.Hour},
		Log: t.Logf})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- rec.Run(ctx) }() // at the intervals of a machine: Podman removes the status in 0.1 s
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	for name, c := range map[string]struct {
		words, script string
		ending        taskrecord.Ending
		kind          verdict.Kind
	}{
		"fails":      {"", "sleep 6; exit 7", taskrecord.Exited, verdict.Container},
		"succeeds":   {"", "sleep 6", taskrecord.Exited, ""},
		"is removed": {"--rm", "sleep 6; exit 5", taskrecord.Exited, verdict.Container},
	} {
		words := strings.Fields("--runtime " + wrapper() + " run --detach --network none -e AMD_VISIBLE_DEVICES=0 " +
			c.words + " gpu-test /bin/sh -c")
		out, err := p.run(append(words, c.script)...)
		require.NoError(t, err, out)
		id := strings.TrimSpace(out)
		for end := time.Now().Add(2 * time.Minute); !store.Ended(id); time.Sleep(20 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "%s: the record does not end", name)
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
		require.Equal(t, c.ending, r.End.Ending, name)
	}
}
