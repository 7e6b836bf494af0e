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

// A container has a record while it leases a GPU, with its exit status.
func TestContainersHaveRecords(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (run func(words ...string) (string, error), flags string){
		"podman": func(t *testing.T) (func(...string) (string, error), string) {
			needPackage(t, "podman", "podman")
			describe(t)
			p := podman{root: filepath.Join(dir, "podman"), runRoot: "/run/podman-test"}
			p.load(t)
			return p.run, "--runtime " + wrapper()
		},
		"docker": func(t *testing.T) (func(...string) (string, error), string) {
			needPackage(t, "docker.io", "dockerd", "docker")
			describe(t)
			dispatch(t, "runtime", "configure", "docker")
			t.Cleanup(func() { dispatch(t, "runtime", "configure", "docker", "--remove") })
			dockerd(t)
			_, err := docker("import", tarball(), "gpu-test")
			require.NoError(t, err)
			return docker, "--runtime amd"
		},
	} {
		t.Run(name, func(t *testing.T) {
			run, flags := start(t)
			recordContainers(t, name, flags, run)
		})
	}
}

// recordContainers starts containers of an engine while a recorder looks as on a machine: engines
// may remove a status sooner than it looks.
func recordContainers(t *testing.T, engine, flags string, run func(words ...string) (string, error)) {
	l := exclusive(t)
	root := hosttest.Host(t, "amd") // its GPU has the name of the first lease
	for at, to := range map[string]string{"/proc": "/proc", "/run": "/run", "/sys/fs/cgroup": "/sys/fs/cgroup",
		"/var/lib/docker": filepath.Join(dir, "docker")} {
		require.NoError(t, os.RemoveAll(root.Path(at)))
		require.NoError(t, os.MkdirAll(filepath.Dir(root.Path(at)), 0o755))
		require.NoError(t, os.Symlink(to, root.Path(at)))
	}
	store := taskrecord.Store{Dir: root.Path(taskrecord.DefaultDir)}
	rec, err := recorder.New(recorder.Options{Root: root, Log: t.Logf,
		Limits: taskrecord.Limits{Bytes: 64 << 20, Age: time.Hour, FailedAge: time.Hour}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- rec.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	containers := []struct {
		words, exit string
		kind        verdict.Kind
	}{
		{"", "7", verdict.Container},
		{"", "0", ""},
		{"--rm", "5", verdict.Container},
	}
	var ids []string
	for _, c := range containers {
		out, err := run(append(strings.Fields("run --detach --network none -e AMD_VISIBLE_DEVICES=0 "+flags+" "+c.words+
			" gpu-test /bin/sh -c"), "trap 'exit "+c.exit+"' TERM; sleep 1h & wait")...)
		require.NoError(t, err, out)
		id := strings.TrimSpace(out)
		ids = append(ids, id)
		require.Eventually(t, func() bool { // it is read once more after its begin
			f, err := store.Find(id[:12])
			if err != nil {
				return false
			}
			r, err := f.Read()
			return err == nil && len(r.Machine) > 1
		}, 2*time.Minute, 50*time.Millisecond)
		out, err = run("kill", "--signal=TERM", id)
		require.NoError(t, err, out)
		require.Eventually(t, func() bool { // the GPU is the next one's
			states, _, err := l.Read()
			return err == nil && !states[0].Held
		}, time.Minute, 50*time.Millisecond)
	}
	for i, c := range containers {
		id := ids[i]
		for end := time.Now().Add(2 * time.Minute); !store.Ended(id); time.Sleep(20 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "%s: the record does not end", c)
		}
		f, err := store.Find(id[:12])
		require.NoError(t, err)
		r, err := f.Read()
		require.NoError(t, err)
		t.Logf("%s: %+v, last %v", c, r.End, r.Machine[len(r.Machine)-1])
		require.Equal(t, lease.Container, r.Head.Kind)
		require.Equal(t, engine, r.Head.Engine)
		require.Equal(t, l.GPUs[0], r.Head.GPUs[0].Name)
		require.NotEmpty(t, r.GPUs[l.GPUs[0]])
		require.Positive(t, r.Machine[1].Value(taskrecord.Processes), c)
		require.Equal(t, c.kind != "", r.Failed(), c)
		require.Equal(t, c.kind, verdict.Decide(&r).Kind, c)
		require.Equal(t, taskrecord.Exited, r.End.Ending, c)
	}
}
