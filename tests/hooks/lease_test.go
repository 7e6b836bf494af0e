package hooks

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A worker's way to leased GPUs and back, with the built program: the wrapper's
// config, the worker's time limit, the exporter's flag, and who holds what.
func TestExclusiveGPUsAndBack(t *testing.T) {
	t.Parallel()
	const wrapper, environment = "/etc/concourse-ci-machine/wrapper.json", "/var/lib/concourse-worker/worker-config.env"
	const layer, report = "/var/lib/concourse-ci-machine/pebble/layers/001-rocm-exporter.yaml", "/run/concourse-ci-machine/gpu-leases.json"
	u := newUnit(t, fixture("mi210x4"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip"})
	u.giveKey()
	u.web()
	u.hook("install")
	ready := u.flight("changed", "web/0").Status().Message // no Pebble runs here
	require.True(t, strings.HasPrefix(ready, "Worker ready (v8.2.5) (GPU: 4x AMD); GPUs not watched: "), ready)
	shared := map[string]string{wrapper: u.read(wrapper), environment: u.read(environment), layer: u.read(layer)}
	require.Contains(t, shared[layer], " --web.external-url=http://"+u.Model.Address+":9401/")
	require.Equal(t, "gpu-sharing=shared: GPUs are not leased", u.action("gpu-status", nil).Results["leases"])

	u.set(options{"gpu-sharing": "exclusive"})
	r := u.hook("config-changed")
	require.Equal(t, ready, r.Status().Message, "the same text")
	require.Contains(t, u.read(wrapper), `"leases":{"dir":"/run/concourse-ci-machine/gpu-leases"`)
	require.Contains(t, u.read(wrapper), `"gpus":[{"name":"0000:23:00.0",`)
	require.Equal(t, shared[environment], u.read(environment))
	require.NotContains(t, strings.Join(r.Commands, "\n"), "restart concourse-worker")
	require.Contains(t, u.read(layer), "--leases.report="+report)
	require.Empty(t, u.hook("update-status").Plan())

	// What runc's call does in the wrapper: this very process leases.
	require.NoError(t, u.Root.WriteFile("/proc/sys/kernel/random/boot_id", []byte("5f0c\n"), 0o644))
	require.NoError(t, u.Root.MkdirAll("/proc/4711", 0o755))
	require.NoError(t, u.Root.WriteFile("/proc/4711/stat", []byte("4711 (runc) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 1 1\n"), 0o644))
	names := []string{"0000:23:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"}
	for i, name := range names {
		require.Contains(t, u.read(wrapper), fmt.Sprintf(`{"name":"%s","cdi":"amd.com/gpu=GPU-`, name))
		require.Contains(t, u.read(wrapper), fmt.Sprintf(`"nodes":["/dev/dri/renderD%d","/dev/dri/card%d"]}`, 128+i, 1+i))
	}
	l := lease.Leases{Dir: u.Root.Path(lease.DefaultDir), GPUs: names, Proc: u.Root.Path("/proc"), Euid: uint32(os.Geteuid())}
	got, err := l.Take(lease.Call{Container: "4f1c", Bundle: "/b", PidFile: "/none/4f1c.pid", Cgroup: "4f1c", PID: 4711}, lease.Want{Count: 1, Of: []int{2}})
	require.NoError(t, err)
	require.Equal(t, []int{2}, got)

	a := u.action("gpu-status", nil)
	stdout, stderr, code := u.person("gpu", "status")
	require.Zero(t, code, stderr)
	require.Equal(t, a.Results["leases"], strings.TrimSpace(stdout))
	require.Contains(t, stdout, "held  GPU 2 (GPU-d3481fe60972b5ac, 0000:83:00.0)\n      by the task of container 4f1c since ")
	_, stderr, code = u.person("gpu", "leases")
	require.Zero(t, code, stderr)
	require.Contains(t, u.read(report), `"container":"4f1c"`)
	a = u.action("release-gpu", map[string]any{"gpu": 2})
	require.Equal(t, "failed", a.Status)
	require.Contains(t, a.Message, "container 4f1c holds it since ")
	a = u.action("release-gpu", map[string]any{"gpu": "GPU-d3481fe60972b5ac", "force": true})
	require.Equal(t, "completed", a.Status)
	require.Contains(t, a.Results["released"], "It can still open the GPU")

	u.set(options{"gpu-sharing": "shared"})
	require.Equal(t, ready, u.hook("config-changed").Status().Message)
	for path, text := range shared {
		require.Equal(t, text, u.read(path), path)
	}
	require.False(t, u.Root.Exists(report))
	require.Empty(t, u.hook("update-status").Plan())

	u.set(options{"gpu-sharing": "alone"})
	require.Equal(t, `gpu-sharing: "alone" is not one of shared, exclusive`,
		u.hook("config-changed").Status().Message)
}

// A Ryzen desktop with a card: its tasks, tags and leases have the card alone.
func TestIntegratedGPUBesideACardGetsNoTasks(t *testing.T) {
	t.Parallel()
	r := hosttest.Host(t, "mi210x4")
	hosttest.AddIntegrated(t, r)
	u := worker(t, string(r), options{"compute-runtime": "rocm", "gpu-sharing": "exclusive", "amd-container-toolkit": "skip"})
	status := u.hook("update-status").Status().Message
	require.True(t, strings.HasPrefix(status, "Worker ready (v8.2.5) (GPU: 4x AMD)"), status)
	require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), ",gpu-count=4,gfx=gfx90a\n")
	require.NotContains(t, u.read("/etc/concourse-ci-machine/wrapper.json"), hosttest.IntegratedPCI)
	stdout, stderr, code := u.person("gpu", "list")
	require.Zero(t, code, stderr)
	require.Contains(t, strings.Join(strings.Fields(stdout), " "), "gpu-device-ids=0,1,2,3,4")

	u.set(options{"gpu-device-ids": "0-4"})
	status = u.hook("config-changed").Status().Message
	require.Contains(t, status, "(GPU: 5x AMD)")
	require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), "gfx=gfx1036")
	require.Contains(t, u.read("/etc/concourse-ci-machine/wrapper.json"), hosttest.IntegratedPCI)
}
