//go:build e2e

package packages

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// booted runs a script on a machine with systemd and the GPUs of a fixture host. What the
// script writes to /out is the result.
func booted(t *testing.T, host, script string) map[string]string {
	t.Helper()
	fixture, out, root := hosttest.Host(t, host), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(out, "script"), []byte("exec 2>/out/errors\nset -x\n"+script), 0o644))
	c := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation",
		"private",
		"--mount-proc", "sh", "boot.sh", root, systemTar, built, out, fixture.Path("/"))
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	text, _ := c.CombinedOutput() // a container's systemd ends with its own status
	got := results(t, out)
	require.Equal(t, "0\n", got["code"], "%s\n%s\n%s", text, got["errors"], got["console"])
	return got
}

// The units run with the real systemd, as they restrict them.
func TestServicesWorkUnderSystemd(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", `
get() { bash -c "exec 3<>/dev/tcp/127.0.0.1/9401 && printf 'GET $1 HTTP/1.0\r\n\r\n' >&3 && cat <&3"; }
until_ok() { for i in $(seq 100); do "$@" && return 0; sleep .3; done; return 1; }
of() { systemctl show --value --property "$2" "$1"; }
ls -1 /etc/systemd/system /etc /usr/share /var/lib >/out/before
dpkg --install /in/gpukit_*.deb /in/rocm-gpu-exporter_*.deb >/out/install 2>&1
until_ok test -s /etc/cdi/amd.json
gpukit cdi validate >/out/described || true
systemctl is-active gpukit-cdi.path rocm-gpu-exporter gpukit-gpus gpukit-records >/out/active
until_ok sh -c 'test -s /run/concourse-ci-machine/gpu-usage.json'
until_ok get /-/healthy >/dev/null
get /metrics >/out/metrics
get /api/v1/gpus | sed '1,/^.$/d' >/out/api
for s in rocm-gpu-exporter gpukit-gpus; do
	p=$(of $s MainPID)
	grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/$p/status >/out/$s
	readlink /proc/$p/ns/net >/out/$s.net
done
readlink /proc/1/ns/net >/out/net
gpukit gpu top --once >/out/top
# A GPU disappears: the watch on /dev/dri describes the others, with their leases.
gpukit runtime configure podman --exclusive >/out/configure
rm /dev/dri/renderD129
gone() { ! grep -q renderD129 /etc/cdi/amd.json && ! grep -q renderD129 /etc/concourse-ci-machine/wrapper.json; }
until_ok gone && echo yes >/out/followed
echo 'GPUKIT_CDI_REFRESH_DEVICE=2' >>/etc/default/gpukit
systemctl restart gpukit-cdi
gpukit cdi list >/dev/null
grep -o '"name":"[0-9]"' /etc/cdi/amd.json >/out/selected
journalctl -b --no-pager -u 'gpukit*' -u 'rocm-gpu*' >/out/journal
dpkg --purge gpukit rocm-gpu-exporter >/out/purge 2>&1
systemctl list-units --all --plain --no-legend 'gpukit*' 'rocm-gpu*' >/out/units
ls -1 /etc/systemd/system /etc /usr/share /var/lib >/out/after
find /run -name '*gpukit*' -o -name '*rocm*' -o -path '/run/concourse*' >/out/left
ls /var/lib/concourse-ci-machine /etc/cdi /etc/concourse-ci-machine /etc/default/gpukit >>/out/left 2>/dev/null || true
`)
	require.Equal(t, "active\nactive\nactive\nactive\n", got["active"], got["journal"])
	require.Contains(t, got["described"], "CDI spec is valid")
	require.Equal(t, 4, strings.Count(got["metrics"], "\nrocm_exporter_device_up{"), got["metrics"])
	var report struct {
		UsersTime *string `json:"users_time"`
		GPUs      []any
	}
	require.NoError(t, json.Unmarshal([]byte(got["api"]), &report), got["api"])
	require.Len(t, report.GPUs, 4)
	require.NotContains(t, got["top"], "read once")
	require.Contains(t, got["top"], "4 GPUs")

	serves, reads := got["rocm-gpu-exporter"], got["gpukit-gpus"]
	require.NotRegexp(t, `Uid:\s+0\s`, serves, "who serves is not root")
	require.Regexp(t, `CapEff:\s+0000000000000000\nCapBnd:\s+0000000000000000\nNoNewPrivs:\s+1\nSeccomp:\s+2`, serves)
	require.Equal(t, got["net"], got["rocm-gpu-exporter.net"])
	require.Regexp(t, `Uid:\s+0\s`, reads)
	require.Regexp(t, `CapBnd:\s+0000000400080026\nNoNewPrivs:\s+1\nSeccomp:\s+2`, reads,
		"ptrace, kill, syslog, and files of others")
	require.NotEqual(t, got["net"], got["gpukit-gpus.net"], "who reads has no network")

	require.Equal(t, "yes\n", got["followed"], got["journal"])
	require.Equal(t, "\"name\":\"2\"\n", got["selected"])
	require.Empty(t, got["units"])
	require.Empty(t, differences(got["before"], got["after"]))
	require.Empty(t, got["left"])
}

// A removal disables the units, and leaves configuration files. An upgrade keeps the administrator's
// choice.
func TestPackagesInstalledAgainAfterARemovalRun(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", `
units="gpukit-cdi.path gpukit-run.socket gpukit-gpus gpukit-records rocm-gpu-exporter"
show() { systemctl is-enabled $units | paste -sd' ' >/out/$1; systemctl is-active $units | paste -sd' ' >>/out/$1; }
install() { dpkg --install /in/gpukit_*.deb /in/rocm-gpu-exporter_*.deb >>/out/install 2>&1; }
install
systemctl disable --now gpukit-records rocm-gpu-exporter
install; show upgraded
dpkg --remove gpukit rocm-gpu-exporter >/out/remove 2>&1
install; show again
ls /run/*.new >/out/left 2>/dev/null || true
`)
	require.Equal(t, "enabled enabled enabled disabled disabled\nactive active active inactive inactive\n",
		got["upgraded"])
	require.Equal(t, "enabled enabled enabled enabled enabled\nactive active active active active\n", got["again"],
		got["install"])
	require.Empty(t, got["left"])
}

// healthy clears the errors that a GPU of the fixture has.
const healthy = `
echo "ue: 0
ce: 0" >/sys/bus/pci/devices/0000:c3:00.0/ras/umc_err_count
>/sys/bus/pci/devices/0000:c3:00.0/ras/gpu_vram_bad_pages
`

// leased is a machine without a unit on which gpukit leases the GPUs. start starts a container
// as Docker does, with a variable; in it are the render nodes.
const leased = healthy + `
dpkg --install /in/gpukit_*.deb >/dev/null 2>&1
gpukit runtime configure podman --exclusive --set-as-default >/out/configure
mkdir -p /srv/rootfs/bin && cp /bin/busybox /srv/rootfs/bin/ && for n in sh sleep ls; do ln -s busybox /srv/rootfs/bin/$n; done
cd /srv && runc spec
wrapper() { runc-amd-wrapper --root /run/docker/runtime-runc/moby "$@"; }
start() { # ID VARIABLE
	mkdir -p /srv/$1
	sed "s|\"path\": \"rootfs\"|\"path\": \"/srv/rootfs\"|; s|\"TERM=xterm\"|\"$2\"|; s|\"terminal\": true|\"terminal\": false|; s|\"sh\"|\"sleep\", \"1000\"|" config.json >/srv/$1/config.json
	wrapper create --pid-file /srv/$1/pid --bundle /srv/$1 $1 </dev/null >/out/$1.start 2>&1 && wrapper start $1 && echo started >/out/$1 || echo refused >/out/$1
	wrapper exec $1 ls /dev/dri >/out/$1.nodes 2>/dev/null </dev/null || true
}
`

func TestContainersLeaseGPUsWithoutAUnit(t *testing.T) {
	need(t)
	t.Parallel()
	got := booted(t, "mi210x4", leased+`
start first AMD_VISIBLE_DEVICES=1
start same AMD_VISIBLE_DEVICES=1
start three GPU_COUNT=3
start more GPU_COUNT=1
start none TERM=xterm
gpukit gpu status >/out/status
wrapper delete --force three
start after GPU_COUNT=1
gpukit runtime configure podman --shared >/out/shared
start sharing AMD_VISIBLE_DEVICES=1
for c in first after none sharing; do wrapper delete --force $c; done
`)
	for name, want := range map[string]string{"first": "started", "same": "refused", "three": "started", "more": "refused",
		"none": "started", "after": "started", "sharing": "started"} {
		require.Equal(t, want+"\n", got[name], "%s: %s", name, got[name+".start"])
	}
	require.Equal(t, "renderD129\n", got["first.nodes"])
	require.Equal(t, 3, strings.Count(got["three.nodes"], "render"), got["three.nodes"])
	require.NotContains(t, got["three.nodes"], "renderD129")
	require.NotContains(t, got["none.nodes"], "render")
	require.Equal(t, "renderD129\n", got["sharing.nodes"])
	require.Contains(t, got["same.start"], "is held by container first")
	require.Contains(t, got["more.start"], "runc-amd-wrapper: cannot lease")
	require.Equal(t, 4, strings.Count(got["status"], "held"), got["status"])
}
