//go:build e2e

package packages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// owners has the helpers of scripts about the owner of the GPUs. owner prints the units that own
// them; read succeeds if the state of the GPUs is newer than the last call of read.
const owners = `
until_ok() { for i in $(seq 100); do "$@" && return 0; sleep .3; done; return 1; }
owner() { for u in gpukit-gpus rocm-gpu-exporter-users; do systemctl --quiet is-active $u && echo $u; done; true; }
newer() { [ /run/concourse-ci-machine/gpu-usage.json -nt /tmp/last ] && [ /run/concourse-ci-machine/gpus.json -nt /tmp/last ]; }
read_again() { touch /tmp/last; until_ok newer; }
install() { dpkg --install /in/$1_*.deb >>/out/install 2>&1; }
`

// Two owners would read each GPU twice. Without one, the exporter has no users of the GPUs.
func TestGPUsHaveOneOwnerInEachOrderOfInstallation(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", owners+`
step() { read_again && echo "$1: $(owner | paste -sd' ')" >>/out/owners; }
install rocm-gpu-exporter; step "exporter"
install gpukit; step "then gpukit"
systemctl restart rocm-gpu-exporter; step "exporter restarted"
install gpukit; install rocm-gpu-exporter; step "both upgraded"
dpkg --purge gpukit >/dev/null 2>&1; step "gpukit removed"
dpkg --purge rocm-gpu-exporter >/dev/null 2>&1
owner >/out/none; ls /run/concourse-ci-machine/*.json >/out/left 2>/dev/null || true
install gpukit; step "gpukit"
install rocm-gpu-exporter; step "then exporter"
dpkg --purge rocm-gpu-exporter >/dev/null 2>&1; step "exporter removed"
systemctl disable --now gpukit-gpus >/dev/null 2>&1
install rocm-gpu-exporter; step "exporter beside a disabled gpukit-gpus"
journalctl -b --no-pager -u 'gpukit*' -u 'rocm-gpu*' >/out/journal
`)
	require.Equal(t, `exporter: rocm-gpu-exporter-users
then gpukit: gpukit-gpus
exporter restarted: gpukit-gpus
both upgraded: gpukit-gpus
gpukit removed: rocm-gpu-exporter-users
gpukit: gpukit-gpus
then exporter: gpukit-gpus
exporter removed: gpukit-gpus
exporter beside a disabled gpukit-gpus: rocm-gpu-exporter-users
`, got["owners"], got["journal"])
	require.Empty(t, got["none"])
	require.NotContains(t, got["left"], "gpus.json")
	require.NotContains(t, got["left"], "gpu-usage.json")
}

// sick is a GPU with an error that its driver counts.
const sick = `
ue() { echo "ue: $1
ce: 0" >/sys/bus/pci/devices/0000:43:00.0/ras/umc_err_count; }
quarantined() { grep -q '0000:43:00.0","reason' /var/lib/concourse-ci-machine/gpu-admission.json; }
free() { ! quarantined; }
`

func TestSickGPUIsQuarantinedWithoutConcourse(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", owners+leased+sick+`
install rocm-gpu-exporter
systemctl kill --signal=KILL rocm-gpu-exporter; systemctl stop rocm-gpu-exporter
read_again
start well AMD_VISIBLE_DEVICES=1
wrapper delete --force well
ue 3
until_ok quarantined
gpukit gpu status >/out/status
gpukit gpu list >/out/list
start refused AMD_VISIBLE_DEVICES=1
start another GPU_COUNT=1
wrapper delete --force another
gpukit gpu return 1 >/out/return
until_ok free
start back AMD_VISIBLE_DEVICES=1
wrapper delete --force back
gpukit gpu quarantine 2 noisy fan >/out/quarantine
gpukit gpu status --json >/out/json
systemctl start rocm-gpu-exporter
get() { bash -c "exec 3<>/dev/tcp/127.0.0.1/9401 && printf 'GET $1 HTTP/1.0\r\n\r\n' >&3 && cat <&3"; }
until_ok get /-/healthy >/dev/null
get /metrics | grep -E '^rocm_gpu_(service_state|lease_held)' >/out/metrics
mkdir -p /opt && printf '#!/bin/sh\nls /dev/dri\n' >/opt/check && chmod 755 /opt/check
echo GPUKIT_GPU_HEALTH_CHECK=/opt/check >>/etc/default/gpukit
gpukit gpu check 2 >/out/check 2>&1 || true
gpukit gpu evidence >/out/evidence
journalctl -b --no-pager -u gpukit-gpus >/out/journal
p=$(systemctl show --value --property MainPID gpukit-gpus)
grep -E '^Vm(RSS|HWM)' /proc/$p/status >/out/memory
systemctl show --property CPUUsageNSec,MemoryPeak,ActiveEnterTimestampMonotonic gpukit-gpus >>/out/memory; cat /proc/uptime >>/out/memory
dpkg --purge gpukit rocm-gpu-exporter >/out/purge 2>&1
ls -A /var/lib/concourse-ci-machine /run/concourse-ci-machine >/out/left 2>/dev/null || true
`)
	require.Equal(t, "started\n", got["well"], got["well.start"])
	require.Regexp(t, `quarantined: GPU 1 \(GPU-[0-9a-f]+, 0000:43:00.0\) has been quarantined since .*: 3 uncorrectable errors\n`,
		got["status"], got["journal"])
	require.Contains(t, got["list"], "3 uncorrectable errors")
	require.Equal(t, "refused\n", got["refused"])
	require.Contains(t, got["refused.start"], "has been quarantined since")
	require.Equal(t, "started\n", got["another"], got["another.start"])
	require.NotContains(t, got["another.nodes"], "renderD129")
	require.Contains(t, got["return"], "is in service again")
	require.Equal(t, "started\n", got["back"], got["back.start"])
	require.Contains(t, got["quarantine"], "Give it back: sudo gpukit gpu return 2\n")
	require.Contains(t, got["json"], `"state": "quarantined"`)
	require.Regexp(t, `rocm_gpu_service_state\{gpu="2",[^}]*state="quarantined",[^}]*\} 1`, got["metrics"])
	require.Contains(t, got["metrics"], "rocm_gpu_lease_held{")
	require.Contains(t, got["check"], "renderD130\n", "the program sees this GPU alone")
	require.Empty(t, got["left"], got["purge"])
	t.Log(got["memory"])
}
