//go:build e2e

package concourse

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/tests/standin"
)

// This needs no release: systemd takes the units that the charm writes, the
// worker's containerd is this machine's, and its containers are made with
// containerd's own client.
func TestTheUnitsOnSystemd(t *testing.T) {
	need(t)
	tgz := filepath.Join(built, "stand-in.tgz") // if the machine sees it
	require.NoError(t, standin.Release(tgz, filepath.Join(built, "bin", "concourse")))
	u := newUnit(t, 0, "amd", tgz, false, (*unit).freeMemory)
	a := &app{t: t}
	a.add(u, map[string]any{"mode": "worker", "compute-runtime": "rocm", "amd-container-toolkit": "skip", "worker-drain-timeout": "10s"})
	r := u.Model.Relate(7, "flight", "web")
	r.Units = map[string]map[string]string{"web/0": {"tsa-host": gateway + ":2222", "concourse-version": "8.2.5",
		"tsa-public-key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"}}
	a.begin()
	s := &story{t: t, app: a}
	s.ready(u)
	require.Equal(t, "active: Worker ready (v8.2.5) (GPU: 1x AMD)", u.status())
	require.Empty(t, u.hook("update-status").Plan())
	require.Empty(t, u.must("systemctl --failed --no-legend"))
	web, err := concourse.WebUnitFileFor(concourse.HomeWebFiles(), nil) // of another machine, with the same programs
	require.NoError(t, err)
	require.NoError(t, u.Root.WriteFile("/root/"+concourse.WebUnit, web.Data, 0o644))
	require.Empty(t, u.must("systemd-analyze verify --man=no /etc/systemd/system/concourse-* /root/"+concourse.WebUnit), "systemd's remarks")

	given := read(u, oci.DefaultConfig)
	require.Contains(t, given, `"gpus":[`)
	u.must("systemctl start concourse-cdi-refresh.service") // each minute, under what systemd takes from it
	require.Equal(t, given, read(u, oci.DefaultConfig))

	// Pebble's look at the GPUs, too.
	until(t, func() bool { return u.Root.Exists(quarantine.File) }, "the GPUs are not watched")

	u.runs(t, "unprivileged", "garden/unprivileged")
	u.runs(t, "privileged", "")
	require.Contains(t, u.holders(), "busybox")
	u.hook("stop")
	require.Empty(t, u.holders(), "what holds the GPU after the worker's end")
	require.Equal(t, "inactive", u.state(concourse.Unit))
	require.Empty(t, u.must("systemctl --failed --no-legend"))
	u.hook("remove")
	require.Empty(t, u.must("ls /etc/systemd/system | { grep concourse || [ $? = 1 ]; }"))
}

// holders are the programs that have the render node open.
func (u *unit) holders() []string {
	u.t.Helper()
	return strings.Fields(u.must("for p in /proc/[0-9]*; do if ls -l $p/fd 2>/dev/null | grep -q /dev/dri/renderD128; then cat $p/comm; fi; done"))
}

// runs makes a container as Concourse does for a privileged task, or an
// unprivileged one but for its user namespace, which leaves a process of another
// session behind. The process has the render node open.
func (u *unit) runs(t *testing.T, id, cgroup string) {
	t.Helper()
	dir := "/var/lib/concourse/test/" + id
	u.must("mkdir -p " + dir + "/rootfs/bin " + dir + "/rootfs/proc " + dir + "/rootfs/dev " + dir + "/rootfs/tmp/build/0badcafe " + dir + "/volume")
	for program, at := range map[string]string{"busybox": dir + "/rootfs/bin/busybox", "ctr": "/usr/local/bin/ctr"} {
		path, err := exec.LookPath(program)
		require.NoError(t, err)
		require.NoError(t, guest.Command("cp", path, u.Root.Path(at)))
	}
	mount := func(destination, kind, source string, options ...string) any {
		return map[string]any{"destination": destination, "type": kind, "source": source, "options": options}
	}
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_MKNOD", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_ADMIN"}
	var namespaces []any
	for _, kind := range []string{"pid", "ipc", "uts", "mount", "network"} {
		namespaces = append(namespaces, map[string]any{"type": kind})
	}
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2", "hostname": "task", "root": map[string]any{"path": dir + "/rootfs"},
		"process": map[string]any{
			"user": map[string]any{"uid": 0, "gid": 0}, "cwd": "/", "env": []string{"PATH=/bin"},
			"args":         []string{"/bin/busybox", "sh", "-c", "exec 3<>/dev/dri/renderD128; busybox setsid busybox sleep 1000 & exec busybox sleep 1000"},
			"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
		},
		"linux": map[string]any{
			"cgroupsPath": cgroup, "namespaces": namespaces,
			"resources": map[string]any{"devices": []any{map[string]any{"allow": false, "access": "rwm"}}},
		},
		"mounts": []any{
			mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
			mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
			mount("/tmp/build/0badcafe", "bind", dir+"/volume", "bind", "rw"),
		},
	})
	require.NoError(t, err)
	require.NoError(t, u.Root.WriteFile(dir+"/config.json", config, 0o644))
	u.must("ctr --namespace concourse --connect-timeout 10s run --detach --config " + dir + "/config.json " + id)
}
