package worker

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// driverOf returns the driver's part of the desired state on a fixture machine.
func driverOf(t *testing.T, name string, set map[string]any, computes bool) Desired {
	t.Helper()
	r := roletest.DriverHost(t, name)
	h := host.Host{Root: r, Runner: roletest.DriverCommands(t), Clock: hosttest.Clock{T: hosttest.Now}}
	if set == nil {
		set = map[string]any{}
	}
	if set["compute-runtime"] == nil {
		set["compute-runtime"] = "rocm"
	}
	o := Observed{Observed: role.Observed{Event: "config-changed", Config: roletest.Config(t, set), Machine: machine.Observe(r), Arch: "amd64", Now: hosttest.Now}}
	o.Facts = model.Facts{Unit: "rocm-worker/0", Role: model.WorkerRole, Config: workerMode()}
	require.NoError(t, o.observeDriver(t.Context(), h))
	if o.Driver != nil {
		o.Driver.Disk = 100 * units.GB // the test machine's may be full
	}
	g := GPUs{Vendor: gpu.AMD}
	if computes {
		g.Chosen = []gpu.GPU{{Slot: gpu.Slot{Vendor: gpu.AMD}}}
	}
	p, decision := desireDriver(o, g)
	return Desired{
		Desired: role.Desired{Resources: p.resources, Causes: p.sortedCauses()}, Worker: Worker{Driver: decision},
	}
}

func TestDriverBlocksOnlyIfTasksCannotCompute(t *testing.T) {
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
		{"vm-foreign", true, status.Active, "driver unsupported: amdgpu-dkms 1:6.7.0.60103-1787253.24.04 is not in the table of releases; it is kept"},
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
			require.Contains(t, d.Causes[0].String(), c.text)
		})
	}
}

func TestHostOptionsAreWarningsInAContainer(t *testing.T) {
	for _, computes := range []bool{true, false} {
		d := driverOf(t, "lxd", map[string]any{"install-driver": "always", "amdgpu-module-params": "gpu_recovery=1"}, computes)
		require.Len(t, d.Causes, 2)
		for _, cause := range d.Causes {
			require.Equal(t, status.Active, cause.Kind)
			require.Contains(t, cause.Text, "does nothing")
		}
	}
}

// An installed driver that serves no GPU is reported.
func TestUnusedOwnDriverIsReported(t *testing.T) {
	d := amd.Decision{State: amd.StateUnsupported, Driver: true, Reason: "it is loaded and serves nothing", Remedies: []string{"see why"}}
	require.Equal(t, status.Block("driver unsupported: it is loaded and serves nothing").Fix("see why"), driverCause(d, amd.Wanted{}, false))
	d.State = amd.StateNone
	require.Empty(t, driverCause(d, amd.Wanted{}, false))
}

// B8: a working driver is unchanged, and nothing of AMD's is planned.
func TestWorkingKernelDriverIsUnchanged(t *testing.T) {
	for _, name := range []string{"lxd", "metal-mixed", "vm-foreign"} {
		d := driverOf(t, name, nil, true)
		require.False(t, d.Driver.Decision.Install, name)
		h := host.Host{Root: roletest.DriverHost(t, name), Runner: hosttest.NewMachine(t), Clock: hosttest.Clock{T: hosttest.Now}}
		p, err := plan.Diff(t.Context(), h, d.Resources...)
		require.NoError(t, err)
		for _, s := range p {
			require.NotContains(t, s.Op, "install ", name)
			require.NotContains(t, s.Op, "apt", name)
		}
	}
}

func TestNoDriverDecisionWithoutAMDGPUs(t *testing.T) {
	for _, runtime := range []string{"none", "cuda"} {
		require.Nil(t, driverOf(t, "metal-fresh", map[string]any{"compute-runtime": runtime}, false).Driver, runtime)
	}
	require.NotNil(t, driverOf(t, "metal-fresh", map[string]any{"compute-runtime": "auto"}, false).Driver)

	r := roletest.DriverHost(t, "metal-fresh")
	require.NoError(t, os.RemoveAll(r.Path("/sys/bus")))
	h := host.Host{Root: r, Runner: roletest.DriverCommands(t), Clock: hosttest.Clock{T: hosttest.Now}}
	o := Observed{Observed: role.Observed{Event: "config-changed", Config: roletest.Config(t, map[string]any{"compute-runtime": "auto"}), Facts: model.Facts{Role: model.WorkerRole}}}
	require.NoError(t, o.observeDriver(t.Context(), h))
	if o.Driver != nil {
		o.Driver.Disk = 100 * units.GB // the test machine's may be full
	}
	require.Nil(t, o.Driver)
	o.Config = roletest.Config(t, map[string]any{"compute-runtime": "rocm"})
	o.Event = "remove"
	require.NoError(t, o.observeDriver(t.Context(), h))
	if o.Driver != nil {
		o.Driver.Disk = 100 * units.GB // the test machine's may be full
	}
	require.Nil(t, o.Driver)
}

// The options accept the values that the packages have.
func TestOptionValuesMatchTheReleases(t *testing.T) {
	for _, u := range amd.Usecases() {
		_, problems := config.Parse(map[string]any{"mode": "worker", "rocm-usecases": u}, nil)
		require.Empty(t, problems, u)
	}
	for _, u := range []string{"dkms", "graphics", "workstation", "amf", "rocm;hip", "rocmdev"} {
		_, problems := config.Parse(map[string]any{"mode": "worker", "rocm-usecases": u}, nil)
		require.Len(t, problems, 1, u)
	}
	c := roletest.Config(t, map[string]any{"rocm-usecases": "rocm, rocmdevtools,lrt,hip,hiplibsdk,opencl,openclsdk,openmpsdk,mllib,mlsdk,smi"})
	require.ElementsMatch(t, append(amd.Usecases(), amd.UsecaseSMI), c.Driver.ROCmUsecases)
}
