//go:build kubernetes

package kubernetes

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// taskHasOne: a GPU that a task leases is not offered to pods.
func taskHasOne(t *testing.T) {
	unit(t, 2)
	endTask, err := task(t, "task", "AMD_VISIBLE_DEVICES=0")
	require.NoError(t, err)
	held(t, 0, "task")
	offers(t, 1)
	require.Equal(t, "1", node(t).Capacity[resource], "it is not sick, it is not there")
	running(t, "other", 1)
	pod(t, "waiting", 1)
	pending(t, "waiting")
	endTask()
	require.Equal(t, nodes(0), opened(t, "waiting"))
}

// podHasOne: a task is refused a GPU that a pod has, and reported which pod.
func podHasOne(t *testing.T) {
	unit(t, 1)
	running(t, "mine", 0)
	held(t, 0, "default/mine/work")
	_, err := task(t, "refused")
	require.ErrorContains(t, err, "cannot lease 1 GPU")
	require.ErrorContains(t, err, "pod default/mine, container work")
	require.Contains(t, dispatch(t, "gpu", "status"), "pod default/mine, container work")
	end(t, "mine")
	held(t, 0, "")
	_, err = task(t, "granted")
	require.NoError(t, err)
	offers(t, 0)
}

// containerAndPod: containers of another engine, made by the wrapper, and pods.
func containerAndPod(t *testing.T) {
	unit(t, 1)
	bundle := rootFolder(t, "of-ctr")
	ctr := func(words ...string) (string, error) { return runIn(bundle, append([]string{"ctr"}, words...)...) }
	start := func() (string, error) {
		return ctr("run", "--detach", "--runc-binary", filepath.Join(dir, "runc-amd-wrapper"), "--env", "AMD_VISIBLE_DEVICES=0",
			"--rootfs", filepath.Join(bundle, "rootfs"), "of-ctr", "/bin/busybox", "sleep", "100000")
	}
	running(t, "mine", 0)
	held(t, 0, "default/mine/work")
	out, err := start()
	require.Error(t, err)
	require.Contains(t, out, "pod default/mine, container work")
	out, err = ctr("containers", "delete", "of-ctr")
	require.NoError(t, err, out)
	end(t, "mine")
	held(t, 0, "")

	out, err = start()
	require.NoError(t, err, out)
	held(t, 0, "of-ctr")
	offers(t, 0)
	pod(t, "waiting", 1)
	pending(t, "waiting")
	out, err = ctr("tasks", "kill", "--signal", "SIGKILL", "of-ctr")
	require.NoError(t, err, out)
	require.Equal(t, nodes(0), opened(t, "waiting"))
}

// held waits until the GPU's lease reports who has it, "" for no one.
func held(t *testing.T, index int, holder string) {
	t.Helper()
	first.held(t, index, holder)
}

func (m member) held(t *testing.T, index int, holder string) {
	t.Helper()
	leases := lease.Leases{Dir: m.root.Path(lease.DefaultDir), GPUs: []string{addressOf(t, index)}}
	eventually(t, render(index)+" is held by "+holder, func() (string, bool) {
		states, _, err := leases.Read()
		if err != nil {
			return err.Error(), false
		}
		now := ""
		if states[0].Held {
			now = states[0].Container
		}
		return "now: " + now, now == holder
	})
}
