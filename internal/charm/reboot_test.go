package charm

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// driven returns the decision about the driver of a fixture machine.
func driven(t *testing.T, name string, set map[string]any, computes bool) worker.Worker {
	t.Helper()
	options := map[string]any{"compute-runtime": "rocm"}
	maps.Copy(options, set)
	r := roletest.DriverHost(t, name)
	h := host.Host{Root: r, Runner: roletest.DriverCommands(t), Clock: hosttest.Clock{T: hosttest.Now}}
	f, err := amd.ObserveDriver(t.Context(), h, worker.AMDMachine(machine.Observe(r), "amd64"))
	require.NoError(t, err)
	f.Disk = 100 * units.GB // the test machine's may be full
	w := worker.DriverOptions(roletest.Config(t, options).Driver, wellknown.Commands{Unit: "rocm-worker/0"})
	return worker.Worker{Driver: &worker.Driver{Decision: amd.Decide(f, w), Facts: f, Wanted: w, HasGPUs: computes}}
}

// B15: the charm requests one reboot for each reason, at the end of a hook, and only if the
// operator allows it.
func TestRebootIsRequestedOncePerReason(t *testing.T) {
	m := jujutest.New("rocm-worker/0")
	m.CharmDir = hosttest.CharmDir(t)
	r := roletest.DriverHost(t, "metal-reboot")
	hook := func(allow, computes bool) ([]status.Cause, string) {
		t.Helper()
		want := driven(t, "metal-reboot", map[string]any{"allow-reboot": allow}, computes)
		require.NotEmpty(t, want.Driver.Decision.Reboot)
		if data, err := r.ReadText("/proc/sys/kernel/random/boot_id"); err == nil {
			want.Driver.Facts.BootID = data
		}
		ctx := m.Begin(jujutest.Hook("update-status"))
		m.Reboot = ""
		causes, err := charmOf(t, r, m, ctx, hosttest.NewMachine(t)).reboot(t.Context(), want)
		require.NoError(t, err)
		require.NoError(t, ctx.Commit())
		return causes, m.Reboot
	}
	causes, asked := hook(false, true)
	require.Empty(t, asked)
	require.Equal(t, status.Active, causes[0].Kind)
	require.Contains(t, causes[0].String(), "allow-reboot=true")
	causes, _ = hook(false, false)
	require.Equal(t, status.Blocked, causes[0].Kind)
	require.False(t, r.Exists(amd.RebootFile))

	causes, asked = hook(true, false)
	require.Equal(t, "after", asked)
	require.Equal(t, []status.Cause{{Kind: status.Maintenance, Text: "rebooting to activate amdgpu 6.10.5"}}, causes)
	causes, asked = hook(true, false) // the machine did not go down yet
	require.Empty(t, asked)
	require.Contains(t, causes[0].Text, "reboot needed")
	hosttest.Put(t, r, "/proc/sys/kernel/random/boot_id", "6f1d2c3e-0000-4000-8000-000000000002\n")
	causes, asked = hook(true, false) // it did, in vain
	require.Empty(t, asked)
	require.Equal(t, status.Blocked, causes[0].Kind)
	require.Contains(t, causes[0].Detail, "did not help")

	// Once the right module runs the same reason has its reboot again.
	want := driven(t, "lxd", nil, true)
	causes, err := charmOf(t, r, m, m.Begin(jujutest.Hook("update-status")), hosttest.NewMachine(t)).reboot(t.Context(), want)
	require.NoError(t, err)
	require.Empty(t, causes)
	require.False(t, r.Exists(amd.RebootFile))
}

// A successful hook requests the reboot at its end, after it published everything.
func TestRebootIsRequestedAtTheEndOfAHook(t *testing.T) {
	m := jujutest.New("rocm-worker/0")
	m.CharmDir = hosttest.CharmDir(t)
	r := roletest.DriverHost(t, "metal-reboot")
	want := driven(t, "metal-reboot", map[string]any{"allow-reboot": true}, true)
	hosttest.Put(t, r, "/var/lib/concourse-worker/keys/worker_key.pub", roletest.TSAKey+"\n")
	ctx := m.Begin(jujutest.Hook("update-status"))
	c := charmOf(t, r, m, ctx, hosttest.NewMachine(t))
	facts := model.Facts{Unit: "rocm-worker/0", Role: model.WorkerRole, Config: map[string]any{"mode": "worker"}}
	require.NoError(t, c.report(t.Context(), outcome{Decision: Decision{Facts: facts, Want: Desired{Worker: want}}}))
	require.NoError(t, ctx.Commit())
	require.Equal(t, "after", m.Reboot)
	require.Equal(t, "maintenance", m.Status().Status)
	require.Contains(t, m.Status().Message, "rebooting to activate amdgpu 6.10.5")
}

// Without a boot ID the charm cannot detect a reboot, so it requests none.
func TestNoRebootWithoutABootID(t *testing.T) {
	want := driven(t, "metal-reboot", map[string]any{"allow-reboot": true}, false)
	want.Driver.Facts.BootID = ""
	m := jujutest.New("rocm-worker/0")
	m.CharmDir = hosttest.CharmDir(t)
	ctx := m.Begin(jujutest.Hook("update-status"))
	causes, err := charmOf(t, roletest.DriverHost(t, "metal-reboot"), m, ctx, hosttest.NewMachine(t)).reboot(t.Context(), want)
	require.NoError(t, err)
	require.Empty(t, ctx.Called("juju-reboot"))
	require.Contains(t, causes[len(causes)-1].Text, "cannot reboot")
}

func TestSecondRunOnlyForADriverThatTasksNeed(t *testing.T) {
	fresh := driven(t, "metal-fresh", nil, false)
	require.True(t, driverInstalled(fresh))
	require.False(t, driverInstalled(driven(t, "metal-fresh", nil, true)))
	require.False(t, driverInstalled(driven(t, "lxd", nil, false)))
	require.False(t, driverInstalled(worker.Worker{}))
}
