//go:build e2e

package lxd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

// shows is what the unit reports its GPUs.
func (u *unit) shows(t *testing.T) {
	u.d.Sub(t, "the right vendor is detected, the other GPU is listed with the reason", func(t *testing.T) {
		require.Contains(t, u.act("list-gpus"), "AMD GPU detected")
		require.NotContains(t, u.act("list-gpus"), "NVIDIA GPU detected")
		list := u.act("list-gpus")
		require.Regexp(t, lxdhost.AMDPCI+".*gfx1100|gfx1100.*"+lxdhost.AMDPCI, list)
		require.Regexp(t, lxdhost.NVIDIAPCI+".*/dev/dri/renderD129 is not there: the host has it and did not pass it through to this machine", list)
	})
	u.d.Sub(t, "check-status finds that all works, and plan has nothing to do", func(t *testing.T) {
		checks := u.act("check-status")
		require.Contains(t, checks, "worker: healthy and registered")
		require.Contains(t, checks, "rocm-exporter: running and healthy")
		require.Contains(t, checks, "gpu 0: healthy")
		require.Contains(t, u.act("plan"), `"steps":"0"`)
	})
	u.d.Sub(t, "preflight and verify-gpu open the unit's nodes, and see that no amdgpu is behind them", func(t *testing.T) {
		checks := u.act("preflight")
		for _, ok := range []string{"node /dev/kfd", "node /dev/dri/renderD128", "gpu: 1 x AMD for tasks",
			"toolkit: amd-container-toolkit 1.3.0", "user namespaces"} {
			require.Regexp(t, `ok +`+ok, checks)
		}
		a := u.agent.ask(map[string]any{"action": "verify-gpu"})
		require.Equal(t, "failed", a.Action.Status)
		require.Contains(t, a.Action.Message, "/dev/dri/renderD128: it is not a DRM device")
		require.Contains(t, a.Action.Results["verified"], "opens for reading and writing")
	})
	u.d.Sub(t, "Pebble runs the exporter, whose metrics are scraped", func(t *testing.T) {
		var text string
		u.eventually(func() bool {
			text = u.get(9401, "/metrics")
			return strings.Contains(text, "200 OK")
		}, "no metrics")
		require.Contains(t, text, `rocm_gpu_utilization{gpu="0",pci_bus_id="`+lxdhost.AMDPCI+`",uuid="GPU-4be2f10c93d57a68"} 42`)
	})
	u.d.Sub(t, "a killed exporter is started again by Pebble, a killed Pebble by systemd", func(t *testing.T) {
		for _, program := range []string{"rocm-exporter", "pebble"} {
			before := u.pids("rocm-exporter")
			require.Len(t, before, 2, "what serves, and its helper")
			u.must("kill -KILL " + strings.Join(u.pids(program), " "))
			u.eventually(func() bool {
				now := u.pids("rocm-exporter")
				return len(now) == 2 && !slices.ContainsFunc(now, func(p string) bool { return slices.Contains(before, p) }) &&
					strings.Contains(u.get(9401, "/metrics"), "200 OK")
			}, "no exporter after "+program+" was killed")
		}
	})
}

// pids are the processes of a program of the charm, without the recorder of tasks, which is
// its own service.
func (u *unit) pids(program string) []string {
	u.d.T.Helper()
	return strings.Fields(u.must(`for p in /proc/[0-9]*; do case $(readlink $p/exe) in */bin/` + program + `) grep -qzx record-tasks $p/cmdline || echo ${p#/proc/};; esac; done`))
}

// get asks a server of the unit; Debian's bash is all that it takes.
func (u *unit) get(port int, path string) string {
	out, _ := u.d.Inside(u.name, fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d && printf "GET %s HTTP/1.0\r\n\r\n" >&3 && cat <&3'`, port, path))
	return out
}

// serves is what tasks get.
func (u *unit) serves(t *testing.T) {
	u.d.Sub(t, "a task in a user namespace of its own opens the GPU, through the wrapper", func(t *testing.T) {
		u.opened(t, "first")
	})
	u.d.Sub(t, "a task knows what to build for", func(t *testing.T) {
		out, err := u.task("env", "echo $HIP_ARCHES")
		require.NoError(t, err, out)
		require.Equal(t, "gfx1100", out)
	})
	u.d.Sub(t, "a privileged task opens it too", func(t *testing.T) {
		u.opened(t, "privileged", privileged)
	})
	u.d.Sub(t, "a task that asks for no GPU gets none", func(t *testing.T) {
		out, err := u.task("none", opens, "AMD_VISIBLE_DEVICES=none")
		require.NoError(t, err, out)
		require.Empty(t, out)
	})
	u.d.Sub(t, "a task that asks for a GPU that the unit does not have is refused with the reason", func(t *testing.T) {
		out, err := u.task("refused", opens, "AMD_VISIBLE_DEVICES=7")
		require.Error(t, err)
		require.Contains(t, out, `cannot give the task the GPUs of AMD_VISIBLE_DEVICES="7"`)
	})
}

// restarts is what people do to the worker while a task runs.
func (u *unit) restarts(t *testing.T) {
	u.d.Sub(t, "a running task goes on when the worker is started again", func(t *testing.T) {
		out, err := u.ctr("run --detach", "long", "exec busybox sleep 1001", nil)
		require.NoError(t, err, out)
		running := u.must(client + " task ls")
		require.Regexp(t, `long +[0-9]+ +RUNNING`, running)
		main := u.must("systemctl show --property MainPID " + worker)
		require.Contains(t, u.act("restart-services"), worker)
		u.settled()
		require.NotEqual(t, main, u.must("systemctl show --property MainPID "+worker))
		require.Equal(t, running, u.must(client+" task ls"))
		opened := u.must(fmt.Sprintf("%s task exec --exec-id opens long /bin/busybox sh -c '%s'", client, opens))
		require.Equal(t, gpuNodes, strings.Fields(opened), "what runs in the task later")
		u.must(client + " task kill --signal SIGKILL long")
		u.eventually(func() bool {
			_, err := u.d.Inside(u.name, client+" task rm long && "+client+" container rm long")
			return err == nil
		}, "the task does not end")
	})
}

// gpuNodes are the nodes of the one GPU and kfd.
var gpuNodes = []string{"/dev/kfd", "/dev/dri/card0", "/dev/dri/renderD128"}

func (u *unit) opened(t *testing.T, id string, env ...string) {
	t.Helper()
	out, err := u.task(id, opens, env...)
	require.NoError(t, err, out)
	require.Equal(t, gpuNodes, strings.Fields(out))
}
