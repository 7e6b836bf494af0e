package predecessor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// The web recognizes the worker and its volumes.
func TestWorkerOfThePythonCharmKeepsItsName(t *testing.T) {
	h, _ := predecessor(t, "worker")
	hostname, err := h.ReadText("/etc/hostname")
	require.NoError(t, err)
	name, ok := WorkerName(h.Root, concourse.WorkDir)
	require.True(t, ok)
	require.Equal(t, hostname, name)
	require.NoError(t, resourcetest.Apply(t, h, NameFile(concourse.WorkDir, name)))

	env, err := concourse.WorkerConfig{Name: name}.File([]byte("CONCOURSE_WORKER_PROCS=1\n"))
	require.NoError(t, err)
	require.NoError(t, resourcetest.Apply(t, h, env))
	hosttest.Put(t, h.Root, "/etc/hostname", "renamed-since\n")
	again, ok := WorkerName(h.Root, concourse.WorkDir)
	require.True(t, ok, "also when the environment is this charm's")
	require.Equal(t, name, again)
	require.Empty(t, resourcetest.Ops(t, h, NameFile(concourse.WorkDir, again)))

	require.NoError(t, h.Remove(concourse.WorkDir+"/.worker-name"))
	_, ok = WorkerName(h.Root, concourse.WorkDir)
	require.False(t, ok, "with another work folder it is another worker")
}

func TestOtherWorkersHaveNoNameToKeep(t *testing.T) {
	for name, change := range map[string]func(set func(path, text string)){
		"named by this charm": func(set func(string, string)) {
			set(concourse.EnvFile, "CONCOURSE_WORKER_PROCS=1\nCONCOURSE_NAME=x\nCONCOURSE_WORK_DIR="+concourse.WorkDir+"\n")
		},
		"never the Python's": func(set func(string, string)) { set(concourse.EnvFile, "CONCOURSE_WORK_DIR="+concourse.WorkDir+"\n") },
		"another work folder": func(set func(string, string)) {
			set(concourse.EnvFile, "CONCOURSE_WORKER_PROCS=1\nCONCOURSE_WORK_DIR=/srv/work\n")
		},
		"an unusable name":      func(set func(string, string)) { set("/etc/hostname", "a b\n") },
		"an unusable kept name": func(set func(string, string)) { set(concourse.WorkDir+"/.worker-name", "a\nb\n") },
	} {
		h, _ := predecessor(t, "worker")
		change(func(path, text string) { hosttest.Put(t, h.Root, path, text) })
		_, ok := WorkerName(h.Root, concourse.WorkDir)
		require.False(t, ok, name)
	}
	h, _ := predecessor(t, "lxc")
	_, ok := WorkerName(h.Root, concourse.WorkDir)
	require.False(t, ok, "on shared storage the work folder was another")
	_, ok = WorkerName(h.Root, concourse.ConfigDir+"/ci-worker/0/work_dir")
	require.True(t, ok)
}
