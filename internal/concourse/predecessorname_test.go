package concourse

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/resource/resourcetest"
)

// The web finds the worker again that it knows, with its volumes.
func TestWorkerOfThePythonCharmKeepsItsName(t *testing.T) {
	h, _ := predecessor(t, "worker")
	hostname, err := h.ReadText("/etc/hostname")
	require.NoError(t, err)
	name, ok := PredecessorName(h.Root, WorkDir)
	require.True(t, ok)
	require.Equal(t, hostname, name)
	require.NoError(t, resourcetest.Apply(t, h, WorkerNameKept(WorkDir, name)))

	env, err := WorkerConfig{Name: name}.File([]byte("CONCOURSE_WORKER_PROCS=1\n"))
	require.NoError(t, err)
	require.NoError(t, resourcetest.Apply(t, h, env))
	hosttest.Put(t, h.Root, "/etc/hostname", "renamed-since\n")
	again, ok := PredecessorName(h.Root, WorkDir)
	require.True(t, ok, "also when the environment is this charm's")
	require.Equal(t, name, again)
	require.Empty(t, resourcetest.Ops(t, h, WorkerNameKept(WorkDir, again)))

	require.NoError(t, h.Remove(WorkDir+"/.worker-name"))
	_, ok = PredecessorName(h.Root, WorkDir)
	require.False(t, ok, "with another work folder it is another worker")
}

func TestOtherWorkersHaveNoNameToKeep(t *testing.T) {
	for name, change := range map[string]func(set func(path, text string)){
		"named by this charm": func(set func(string, string)) {
			set(EnvFile, "CONCOURSE_WORKER_PROCS=1\nCONCOURSE_NAME=x\nCONCOURSE_WORK_DIR="+WorkDir+"\n")
		},
		"never the Python's": func(set func(string, string)) { set(EnvFile, "CONCOURSE_WORK_DIR="+WorkDir+"\n") },
		"another work folder": func(set func(string, string)) {
			set(EnvFile, "CONCOURSE_WORKER_PROCS=1\nCONCOURSE_WORK_DIR=/srv/work\n")
		},
		"an unusable name":      func(set func(string, string)) { set("/etc/hostname", "a b\n") },
		"an unusable kept name": func(set func(string, string)) { set(WorkDir+"/.worker-name", "a\nb\n") },
	} {
		h, _ := predecessor(t, "worker")
		change(func(path, text string) { hosttest.Put(t, h.Root, path, text) })
		_, ok := PredecessorName(h.Root, WorkDir)
		require.False(t, ok, name)
	}
	h, _ := predecessor(t, "lxc")
	_, ok := PredecessorName(h.Root, WorkDir)
	require.False(t, ok, "on shared storage the work folder was another")
	_, ok = PredecessorName(h.Root, ConfigDir+"/ci-worker/0/work_dir")
	require.True(t, ok)
}
