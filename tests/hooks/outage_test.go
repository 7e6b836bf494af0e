package hooks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// D26, D46, D49: what changes in the life of a worker reaches its machine.
func TestD26D46D49MachineFollowsOptionsAndGPUs(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("both-passed"), options{"compute-runtime": "rocm", "tag": "big", "amd-container-toolkit": "skip"})
	require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TAG=big,gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1100\n")
	before := u.read("/etc/cdi/amd.json")

	// The host's operator takes /dev/kfd away: no task gets a GPU any more.
	kfd := u.read("/dev/kfd")
	require.NoError(t, u.Root.Remove("/dev/kfd"))
	r := u.hook("update-status")
	require.Equal(t, "blocked", r.Status().Status)
	require.Contains(t, r.Status().Message, "no /dev/kfd")
	require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TAG=big,gpu-count=0\n", "no step without tags comes meanwhile")
	require.Contains(t, r.Status().Message, "; and 2 more: ")
	plan, _, _ := u.person("plan")
	require.Contains(t, plan, "\nnothing to do for the charm; the operator must do the steps above\n")
	require.Contains(t, r.Commands, "systemctl restart concourse-worker.service", "it has to register with its new tags")
	require.False(t, u.Root.Exists("/etc/cdi/amd.json"))

	require.NoError(t, u.Root.WriteFile("/dev/kfd", []byte(kfd), 0o644))
	r = u.hook("update-status")
	require.Equal(t, "active", r.Status().Status)
	require.Equal(t, before, u.read("/etc/cdi/amd.json"))

	u.set(options{"compute-runtime": "none", "tag": "", "srv-folders": "none"})
	r = u.hook("config-changed")
	require.Equal(t, "Worker ready (v8.2.5)", r.Status().Message)
	env := u.read("/var/lib/concourse-worker/worker-config.env")
	require.NotContains(t, env, "CONCOURSE_TAG=")
	require.NotContains(t, env, "CONCOURSE_CONTAINERD_BIN=")
	require.Equal(t, []string{"systemctl stop concourse-cdi-refresh.path", "systemctl disable concourse-cdi-refresh.path", "systemctl restart concourse-worker.service", "systemctl daemon-reload",
		"systemctl restart concourse-pebble.service"}, r.Commands)
	for _, gone := range []string{"/etc/cdi/amd.json", "/etc/concourse-ci-machine/wrapper.json", "/opt/concourse-ci-machine/runtime/containerd"} {
		require.False(t, u.Root.Exists(gone), gone)
	}
}

// A web that goes away for a while ends no task; the operator who breaks the
// relation does, and the worker comes back with the next one.
func TestWebThatIsAwayEndsNoTask(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	flight := u.Model.Relations[0]
	web := flight.Units["web/0"]
	r := u.flight("departed", "web/0")
	require.Equal(t, "waiting", r.Status().Status)
	require.Contains(t, r.Status().Message, "the worker is left running: stopping it would end running tasks")
	require.Empty(t, r.Commands)
	delete(flight.Units, "web/0")
	require.Empty(t, u.hook("update-status").Commands)
	flight.Units["web/0"] = web
	r = u.flight("changed", "web/0")
	require.Empty(t, r.Commands, "the web is back, and nothing else is new")
	require.Equal(t, "active", r.Status().Status)

	u.flight("broken", "")
	require.False(t, u.Machine.Up("concourse-worker.service"))
	r = u.flight("changed", "web/0")
	require.True(t, u.Machine.Up("concourse-worker.service"))
	require.Equal(t, "active", r.Status().Status)
}

// D2, D13: a release that is there is not looked for again.
func TestNewReleaseIsSwitchedToAndTheWorkerRestartedOnce(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	u.Model.Resources["concourse-release"] = releaseTarball("8.2.6")
	r := u.hook("update-status")
	require.Empty(t, r.Plan(), "Juju says upgrade-charm after attach-resource")
	u.Model.Relations[0].Units["web/0"]["concourse-version"] = "8.2.6"
	r = u.hook("upgrade-charm")
	require.Equal(t, []string{"systemctl kill --kill-whom=main --signal=SIGUSR2 concourse-worker.service",
		"systemctl restart concourse-worker.service"}, r.Commands)
	require.Equal(t, "Worker ready (v8.2.6)", r.Status().Message)
	require.Equal(t, "8.2.6", u.Model.Version)
}
