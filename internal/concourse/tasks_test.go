package concourse

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestOnlyTasksThatRunAreCounted(t *testing.T) {
	r := hosttest.Root(t)
	n, err := RunningTasks(r)
	require.NoError(t, err)
	require.Zero(t, n)
	bundle := "/run/containerd/io.containerd.runtime.v2.task/concourse/%s/%s"
	stat := "%d (sh) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n"
	hosttest.Put(t, r, "/proc/100/stat", fmt.Sprintf(stat, 100))
	hosttest.Put(t, r, "/proc/102/stat", "102 (sh) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n")
	hosttest.Put(t, r, fmt.Sprintf(bundle, "runs", "task.pid"), "100")
	hosttest.Put(t, r, fmt.Sprintf(bundle, "ended", "task.pid"), "101")
	hosttest.Put(t, r, fmt.Sprintf(bundle, "zombie", "task.pid"), "102")
	hosttest.Put(t, r, fmt.Sprintf(bundle, "odd", "task.pid"), "100 or so")
	hosttest.Put(t, r, fmt.Sprintf(bundle, "check", "resource.pid"), "100")
	require.NoError(t, os.MkdirAll(r.Path(fmt.Sprintf(bundle, "init", "only")), 0o755))
	n, err = RunningTasks(r)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
