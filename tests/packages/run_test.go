//go:build e2e

package packages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user of group render leases GPUs from the service that systemd starts, and the end of a
// runner's unit ends its runs.
func TestUsersRunCommandsWithLeasedGPUs(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", `
until_ok() { for i in $(seq 200); do "$@" && return 0; sleep .3; done; return 1; }
held() { grep -l '"phase":"holding"' /run/concourse-ci-machine/gpu-leases/0000* | wc -l; }
is_held() { [ "$(held)" = "$1" ]; }
dpkg --install /in/gpukit_*.deb >/dev/null 2>&1
until_ok test -s /etc/cdi/amd.json
stat -c '%F %a %U:%G' /run/gpukit/run.sock >/out/socket
useradd --groups render ada
useradd bob
as() { u=$1; shift; runuser -u "$u" -- "$@"; }
as ada gpukit run -- sh -c 'echo $ROCR_VISIBLE_DEVICES; grep ^0: /proc/self/cgroup; for n in /dev/dri/renderD*; do cat $n; done' >/out/run 2>&1 || true
as bob gpukit run -- true >/out/bob 2>&1 || echo $? >>/out/bob
p=$(systemctl show --value --property MainPID gpukit-run.service)
grep -E '^(Uid|CapBnd|NoNewPrivs|Seccomp):' /proc/$p/status >/out/service
until_ok is_held 0
# A runner of ada, with a job that leaves a process behind.
systemd-run --quiet --unit runner -p User=ada gpukit run --gpus 4 --name 'the job' -- sh -c 'setsid sleep 7654321 & exec sleep 1234567'
until_ok is_held 4
as ada gpukit run --wait 0 -- true >/out/busy 2>&1 || true
kill -9 $p
as ada gpukit run --wait 0 -- true >/out/crashed 2>&1 || true
systemctl stop runner
until_ok is_held 0
ps -eo args | grep -E '^sleep (7654321|1234567)' >/out/left || true
as ada gpukit run -- true >/out/again 2>&1
journalctl -b --no-pager -u 'gpukit-run*' >/out/journal
dpkg --purge gpukit >/out/purge 2>&1
find /sys/fs/cgroup /run -name 'gpukit*' >/out/remains
systemctl list-units --all --plain --no-legend 'gpukit*' >/out/units
`)
	require.Equal(t, "socket 660 root:render\n", got["socket"])
	require.Contains(t, got["run"], "\n0\n0::/system.slice/script.service/gpukit-run-", got["journal"])
	require.Equal(t, 3, strings.Count(got["run"], "Operation not permitted"), got["run"])
	require.Equal(t, 1, strings.Count(got["run"], "No such device"), got["run"])
	require.Contains(t, got["bob"], "you may not use /run/gpukit/run.sock; run: sudo usermod -aG render $USER")
	require.True(t, strings.HasSuffix(got["bob"], "\n125\n"), got["bob"])
	require.Regexp(t, `Uid:\s+0\s`, got["service"])
	require.Regexp(t, `CapBnd:\s+0000008000081020\nNoNewPrivs:\s+1\nSeccomp:\s+2`, got["service"],
		"CAP_KILL, CAP_NET_ADMIN, CAP_SYS_PTRACE and CAP_BPF alone")
	for _, refused := range []string{"busy", "crashed"} {
		require.Contains(t, got[refused], "(the job)", got["journal"])
	}
	require.Empty(t, got["left"])
	require.Contains(t, got["again"], "has GPU")
	require.Empty(t, got["remains"])
	require.Empty(t, got["units"])
}
