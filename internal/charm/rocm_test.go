package charm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/juju/jujutest"
	"concourse-ci-machine/internal/machine"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/internal/status"
)

// driverHost is a machine of package rocm's fixtures.
func driverHost(t *testing.T, name string) host.Root {
	t.Helper()
	r := hosttest.Root(t, filepath.Join("../rocm/testdata", name))
	hosttest.Put(t, r, "/etc/os-release", "ID=ubuntu\nVERSION_CODENAME=noble\n")
	hosttest.Put(t, r, "/etc/hostname", "rocm-0\n")
	if name == "lxd" {
		hosttest.Put(t, r, "/run/systemd/container", "lxc\n")
	}
	return r
}

// driverOf is the driver's part of what is desired on a fixture machine.
func driverOf(t *testing.T, name string, set map[string]any, computes bool) Desired {
	t.Helper()
	r := driverHost(t, name)
	h := host.Host{Root: r, Runner: driverCommands(t), Clock: hosttest.Clock{T: hosttest.Now}}
	if set == nil {
		set = map[string]any{}
	}
	if set["compute-runtime"] == nil {
		set["compute-runtime"] = "rocm"
	}
	set["min-disk-gb"] = 0 // the test machine's own disk is what it is
	o := WorkerObserved{UnitObserved: UnitObserved{Event: "config-changed", Config: configOf(t, set), Machine: machine.Observe(r), Arch: "amd64", Now: hosttest.Now}}
	o.Facts = model.Facts{Unit: "rocm-worker/0", Role: model.WorkerRole, Config: workerMode()}
	require.NoError(t, o.observeDriver(t.Context(), h))
	g := GPUs{Vendor: gpu.AMD}
	if computes {
		g.Chosen = []gpu.GPU{{Vendor: gpu.AMD}}
	}
	d := Desired{}
	desireDriver(&d, o, g)
	return d
}

func driverCommands(t *testing.T) *hosttest.Runner {
	return hosttest.NewMachine(t).Answer("modinfo", "version:        6.10.5\nsrcversion:     8B3A9B7E5866E52F63B9ACC\n").
		Answer("apt-cache policy", "  Candidate: 6.8.0-52.53\n")
}

// What is wrong with the driver blocks a unit only where tasks can't compute,
// and a container's driver is nothing to be blocked for.
func TestDriverBlocksOnlyWhereTasksCannotCompute(t *testing.T) {
	for _, c := range []struct {
		host     string
		computes bool
		kind     status.Kind // "" for no cause
		text     string
	}{
		{"metal-mixed", true, status.Active, "driver mixed: apt has AMD's driver from several releases: 6.3.3, 30.10.2 — remove all but one"},
		{"metal-mixed", false, status.Blocked, "driver mixed: "},
		{"metal-blacklisted", false, status.Blocked, "driver none: no driver serves 0000:03:00.0: amdgpu is blacklisted in /etc/modprobe.d/blacklist-gpu.conf:3"},
		{"metal-fresh", false, "", ""}, // the plan installs it
		{"vm-foreign", true, status.Active, "driver unsupported: amdgpu-dkms 1:6.7.0.60103-1787253.24.04 is in no row of the table of releases; it stays as it is"},
		{"vm-foreign", false, status.Blocked, "driver unsupported: "},
		{"lxd", true, "", ""},
		{"lxd", false, "", ""},
	} {
		t.Run(c.host, func(t *testing.T) {
			d := driverOf(t, c.host, nil, c.computes)
			require.NotNil(t, d.Driver)
			if c.kind == "" {
				for _, cause := range d.Causes {
					require.NotContains(t, cause.Text, "driver ")
				}
				return
			}
			require.NotEmpty(t, d.Causes)
			require.Equal(t, c.kind, d.Causes[0].Kind)
			require.Contains(t, d.Causes[0].Text, c.text)
		})
	}
}

func TestOptionsOfTheHostAreRemarksInAContainer(t *testing.T) {
	for _, computes := range []bool{true, false} {
		d := driverOf(t, "lxd", map[string]any{"install-driver": "always", "gpu-device-mode": "0666", "amdgpu-module-params": "gpu_recovery=1"}, computes)
		require.Len(t, d.Causes, 3)
		for _, cause := range d.Causes {
			require.Equal(t, status.Active, cause.Kind)
			require.Contains(t, cause.Text, "does nothing")
		}
	}
}

// A driver of the charm's own that serves nothing is no secret.
func TestAnOwnDriverThatServesNothingIsSaid(t *testing.T) {
	d := rocm.Decision{State: rocm.StateUnsupported, Driver: true, Reason: "it is loaded and serves nothing", Remedies: []string{"see why"}}
	require.Equal(t, &status.Cause{Kind: status.Blocked, Text: "driver unsupported: it is loaded and serves nothing — see why"}, driverCause(d, rocm.Wanted{}, false))
	d.State = rocm.StateNone
	require.Nil(t, driverCause(d, rocm.Wanted{}, false))
}

// B8: what runs and works stays as it is: nothing of AMD's is planned.
func TestTheKernelsDriverIsLeftAlone(t *testing.T) {
	for _, name := range []string{"lxd", "metal-mixed", "vm-foreign"} {
		d := driverOf(t, name, nil, true)
		require.False(t, d.Driver.Decision.Install, name)
		h := host.Host{Root: driverHost(t, name), Runner: hosttest.NewMachine(t), Clock: hosttest.Clock{T: hosttest.Now}}
		p, err := plan.Diff(t.Context(), h, d.Resources...)
		require.NoError(t, err)
		for _, s := range p {
			require.NotContains(t, s.Op, "install ", name)
			require.NotContains(t, s.Op, "apt", name)
		}
	}
}

func TestDriverIsNobodysBusinessWithoutAMDGPUs(t *testing.T) {
	for _, runtime := range []string{"none", "cuda"} {
		require.Nil(t, driverOf(t, "metal-fresh", map[string]any{"compute-runtime": runtime}, false).Driver, runtime)
	}
	require.NotNil(t, driverOf(t, "metal-fresh", map[string]any{"compute-runtime": "auto"}, false).Driver)

	r := driverHost(t, "metal-fresh")
	require.NoError(t, os.RemoveAll(r.Path("/sys/bus")))
	h := host.Host{Root: r, Runner: driverCommands(t), Clock: hosttest.Clock{T: hosttest.Now}}
	o := WorkerObserved{UnitObserved: UnitObserved{Event: "config-changed", Config: configOf(t, map[string]any{"compute-runtime": "auto"}), Facts: model.Facts{Role: model.WorkerRole}}}
	require.NoError(t, o.observeDriver(t.Context(), h))
	require.Nil(t, o.Driver)
	o.Config = configOf(t, map[string]any{"compute-runtime": "rocm"})
	o.Event = "remove"
	require.NoError(t, o.observeDriver(t.Context(), h))
	require.Nil(t, o.Driver)
}

// B15: one reboot for each reason, asked for at the end of a hook, and only
// where the operator allows it.
func TestRebootsOnceForAReason(t *testing.T) {
	m := jujutest.New("rocm-worker/0")
	m.CharmDir = hosttest.CharmDir(t)
	r := driverHost(t, "metal-reboot")
	hook := func(allow, computes bool) ([]status.Cause, string) {
		t.Helper()
		want := driverOf(t, "metal-reboot", map[string]any{"allow-reboot": allow}, computes)
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
	require.Contains(t, causes[0].Text, "allow-reboot=true")
	causes, _ = hook(false, false)
	require.Equal(t, status.Blocked, causes[0].Kind)
	require.False(t, r.Exists(rocm.RebootFile))

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
	require.Contains(t, causes[0].Text, "did not help")

	// Once the right module runs the same reason has its reboot again.
	want := driverOf(t, "lxd", nil, true)
	causes, err := charmOf(t, r, m, m.Begin(jujutest.Hook("update-status")), hosttest.NewMachine(t)).reboot(t.Context(), want)
	require.NoError(t, err)
	require.Empty(t, causes)
	require.False(t, r.Exists(rocm.RebootFile))
}

// The reboot is the last word of a hook that ended well: with its status, after
// all that the hook had to tell.
func TestTheRebootIsTheLastOfAHook(t *testing.T) {
	m := jujutest.New("rocm-worker/0")
	m.CharmDir = hosttest.CharmDir(t)
	r := driverHost(t, "metal-reboot")
	want := driverOf(t, "metal-reboot", map[string]any{"allow-reboot": true}, true)
	hosttest.Put(t, r, "/var/lib/concourse-worker/keys/worker_key.pub", tsaKey+"\n")
	ctx := m.Begin(jujutest.Hook("update-status"))
	c := charmOf(t, r, m, ctx, hosttest.NewMachine(t))
	require.NoError(t, c.tell(t.Context(), model.Facts{Unit: "rocm-worker/0", Role: model.WorkerRole, Config: workerMode()}, want, nil, nil, false))
	require.NoError(t, ctx.Commit())
	require.Equal(t, "after", m.Reboot)
	require.Equal(t, "maintenance", m.Status().Status)
	require.Contains(t, m.Status().Message, "rebooting to activate amdgpu 6.10.5")
}

// A machine that can't be told apart from one that was rebooted already is not
// rebooted.
func TestNoRebootWithoutABootID(t *testing.T) {
	want := driverOf(t, "metal-reboot", map[string]any{"allow-reboot": true}, false)
	want.Driver.Facts.BootID = ""
	m := jujutest.New("rocm-worker/0")
	m.CharmDir = hosttest.CharmDir(t)
	ctx := m.Begin(jujutest.Hook("update-status"))
	causes, err := charmOf(t, driverHost(t, "metal-reboot"), m, ctx, hosttest.NewMachine(t)).reboot(t.Context(), want)
	require.NoError(t, err)
	require.Empty(t, ctx.Called("juju-reboot"))
	require.Contains(t, causes[len(causes)-1].Text, "cannot reboot")
}

func TestRunsAgainOnlyForADriverThatTasksWaitFor(t *testing.T) {
	fresh := driverOf(t, "metal-fresh", nil, false)
	require.True(t, fresh.brought(true))
	require.False(t, fresh.brought(false))
	require.False(t, driverOf(t, "metal-fresh", nil, true).brought(true))
	require.False(t, driverOf(t, "lxd", nil, false).brought(true))
	require.False(t, Desired{}.brought(true))
}

// What the options take is what the packages have.
func TestOptionsAgreeWithTheReleases(t *testing.T) {
	for _, u := range rocm.Usecases() {
		_, problems := config.Parse(map[string]any{"mode": "worker", "rocm-usecases": u}, nil)
		require.Empty(t, problems, u)
	}
	for _, u := range []string{"dkms", "graphics", "workstation", "amf", "rocm;hip", "rocmdev"} {
		_, problems := config.Parse(map[string]any{"mode": "worker", "rocm-usecases": u}, nil)
		require.Len(t, problems, 1, u)
	}
	c := configOf(t, map[string]any{"rocm-usecases": "rocm, rocmdevtools,lrt,hip,hiplibsdk,opencl,openclsdk,openmpsdk,mllib,mlsdk"})
	require.ElementsMatch(t, rocm.Usecases(), c.ROCmUsecases)
	standard, err := rocm.FindRelease(c.ROCmVersion, "")
	require.NoError(t, err)
	require.Equal(t, c.ToolkitVersion, standard.ToolkitVersion)
}
