//go:build e2e

package packages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runs has the helpers of scripts with runs, on a machine without a sick GPU. Each wait is
// bounded. A script that fails adds the journal of the lease service to its errors.
const runs = healthy + `
trap 'journalctl -b --no-pager -u "gpukit-run*" -u runner >&2' EXIT
within() { for i in $(seq 100); do "$@" && return 0; sleep .3; done; return 1; }
as() { u=$1; shift; timeout 60 runuser -u "$u" -- "$@"; }
all_free() { timeout 60 gpukit run --gpus 4 --wait 0 -- true 2>/dev/null; }
has_job() { gpukit gpu status >/out/status && grep -q 'the job' /out/status; }
dpkg --install /in/gpukit_*.deb >/out/install 2>&1
within test -s /etc/cdi/amd.json
useradd --groups render ada
useradd bob
`

func TestUserOfGroupRenderRunsCommandsWithLeasedGPUs(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", runs+`
stat -c '%F %a %U:%G' /run/gpukit/run.sock >/out/socket
as ada gpukit run -- sh -c 'echo $ROCR_VISIBLE_DEVICES; grep ^0: /proc/self/cgroup; for n in /dev/dri/renderD*; do cat $n; done' \
	>/out/run 2>&1 || true
as bob gpukit run -- true >/out/bob 2>&1 || echo $? >>/out/bob
p=$(systemctl show --value --property MainPID gpukit-run.service)
grep -E '^(Uid|CapBnd|NoNewPrivs|Seccomp):' /proc/$p/status >/out/service
`)
	require.Equal(t, "socket 660 root:render\n", got["socket"])
	require.Contains(t, got["run"], "\n0\n0::/system.slice/script.service/gpukit-run-", got["errors"])
	require.Equal(t, 3, strings.Count(got["run"], "Operation not permitted"), "GPUs of others: %s", got["run"])
	require.Equal(t, 1, strings.Count(got["run"], "No such device"), "a node without a driver: %s", got["run"])
	require.Contains(t, got["bob"], "you may not use /run/gpukit/run.sock; run: sudo usermod -aG render $USER")
	require.True(t, strings.HasSuffix(got["bob"], "\n125\n"), got["bob"])
	require.Regexp(t, `Uid:\s+0\s`, got["service"])
	require.Regexp(t, `CapBnd:\s+0000008000081020\nNoNewPrivs:\s+1\nSeccomp:\s+2`, got["service"],
		"CAP_KILL, CAP_NET_ADMIN, CAP_SYS_PTRACE and CAP_BPF alone")
}

// The runner's job leaves a process in another session.
func TestRunEndsWithTheUnitOfItsRunner(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", runs+`
systemd-run --quiet --unit runner -p User=ada gpukit run --gpus 4 --name 'the job' -- sh -c 'setsid sleep 7654321 & exec sleep 7654321'
within has_job
systemctl kill --signal KILL gpukit-run.service
as ada gpukit run --wait 0 -- true >/out/crashed 2>&1 || true
systemctl is-active runner >/out/runner
systemctl stop runner
within all_free
# Its user owns this runner's group, and could move the job out of it.
systemd-run --quiet -p User=ada -p Delegate=yes -p StandardOutput=file:/out/delegated gpukit run -- grep ^0: /proc/self/cgroup
within test -s /out/delegated
within all_free
systemd-run --quiet --unit delegated -p User=ada -p Delegate=yes sh -c 'gpukit run --gpus 4 --name "the job" -- sleep 7654322 & exec sleep 7654323'
within has_job
systemctl stop delegated
within all_free
grep -lszx '765432[123]' /proc/[0-9]*/cmdline >/out/left || true
dpkg --purge gpukit >/out/purge 2>&1
find /sys/fs/cgroup /run -name 'gpukit*' >/out/remains
systemctl list-units --all --plain --no-legend 'gpukit*' >/out/units
`)
	require.Contains(t, got["crashed"], "(the job)", "the lease outlives the service: %s", got["errors"])
	require.Equal(t, "active\n", got["runner"])
	require.Contains(t, got["delegated"], "0::/gpukit.slice/gpukit-run-", "a group that is only root's")
	require.Empty(t, got["left"], "processes of the job")
	require.Empty(t, got["remains"], got["purge"])
	require.Empty(t, got["units"])
}

// The files of the driver are plain ones: what remains of a longer value is in a second line.
func TestUserOfGroupRenderRunsBenchesWithFixedClocks(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", runs+`
level() { head -n 1 /sys/bus/pci/devices/$1/power_dpm_force_performance_level; }
own() { [ "$(level 0000:23:00.0)" = auto ]; }
fixed() { [ "$(level 0000:23:00.0)" = profile_standard ]; }
echo auto >/sys/bus/pci/devices/0000:23:00.0/power_dpm_force_performance_level
looked='for i in $(seq 200); do grep -q "looks\": [1-9]" $GPU_FIXED_CLOCKS_RECORD && break; sleep .3; done; cat $GPU_FIXED_CLOCKS_RECORD'
level=/sys/bus/pci/devices/0000:23:00.0/power_dpm_force_performance_level
runuser -u ada -- gpukit run --bench -- sh -c "head -n 1 $level; $looked" >/out/bench 2>&1
within own
has_why() { gpukit why $(sed -n 's/^gpukit: \(run-[0-9a-f]*\) has.*/\1/p' /out/bench) >/out/why 2>&1 && grep -q clocks /out/why; }
within has_why
as ada gpukit run --bench --gpu-id 1 -- true >/out/refused 2>&1 || echo $? >>/out/refused
p=$(systemctl show --value --property MainPID gpukit-run.service)
grep -E ' /sys(/devices)? r' /proc/$p/mountinfo | cut -d' ' -f5-6 >/out/mounts
systemd-run --quiet --unit runner -p User=ada gpukit run --bench --name 'the job' -- sleep 7654321
within fixed
systemctl kill --signal KILL gpukit-run.service
systemctl kill --signal KILL runner
within own
systemctl reset-failed runner
systemd-run --quiet --unit runner -p User=ada gpukit run --bench --name 'the job' -- sleep 7654321
within fixed
dpkg --purge gpukit >/out/purge 2>&1
own
ls -A /var/lib/concourse-ci-machine/gpu-fixed-clocks /run/concourse-ci-machine/fixed-clocks >/out/left 2>/dev/null || true
`)
	require.Contains(t, got["bench"], "with fixed clocks (profile_standard)\n", got["errors"])
	require.Regexp(t, `(?m)^profile_standard\n\{"valid": true, .*"level": "profile_standard", "looks": [1-9]`, got["bench"])
	require.Contains(t, got["why"], "clocks of its GPUs: fixed (profile_standard)")
	require.Contains(t, got["refused"], "the clocks of GPU 1 cannot be fixed: its driver has no power_dpm_force_performance_level; "+
		"run it without --bench\n125\n")
	require.Regexp(t, `(?m)^/sys ro`, got["mounts"])
	require.Regexp(t, `(?m)^/sys/devices rw`, got["mounts"])
	require.Empty(t, got["left"], got["purge"])
}
