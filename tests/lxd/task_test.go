//go:build e2e

package lxd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// task runs a shell line as a task of Concourse without privileges: in a user
// namespace within the unit's own, by the containerd that the worker started.
// env is the task's; privileged=true in it makes it a privileged one. The task writes to a
// file: two seconds after its end containerd drops output that it has not copied.
func (u *unit) task(id, line string, env ...string) (string, error) {
	u.d.T.Helper()
	out, err := u.ctr("run --rm", id, "{ "+line+"; } >/tmp/build/0badcafe/said 2>&1", env)
	said := u.must("cd /var/lib/test-tasks/" + id + "/volume && if [ -e said ]; then cat said; rm said; fi")
	return strings.TrimSpace(out + "\n" + said), err
}

// client is containerd's own client. Tasks are in Concourse's place, in which the charm
// looks for them.
const client = parts + "/ctr --namespace concourse --connect-timeout 10s"

// ctr has it make and run the container id.
func (u *unit) ctr(how, id, line string, env []string) (string, error) {
	t := u.d.T
	t.Helper()
	// Concourse gives a task all ids but the last, which is its root's.
	var first, outside, size int
	_, err := fmt.Sscan(u.must("cat /proc/self/uid_map"), &first, &outside, &size)
	require.NoError(t, err)
	ids := []any{
		map[string]int{"containerID": 0, "hostID": size - 1, "size": 1},
		map[string]int{"containerID": 1, "hostID": 1, "size": size - 2},
	}
	dir := "/var/lib/test-tasks/" + id
	u.must(fmt.Sprintf("mkdir -p %[1]s/rootfs/bin %[1]s/rootfs/proc %[1]s/rootfs/dev %[1]s/rootfs/tmp/build/0badcafe %[1]s/volume && "+
		"cp %[2]s/busybox %[1]s/rootfs/bin && chown -R %[3]d:%[3]d %[1]s/rootfs %[1]s/volume", dir, parts, size-1))
	if slices.Contains(env, privileged) {
		ids = nil
		u.must("chown -R 0:0 " + dir)
	}
	config := taskConfig(dir, id, line, ids, env)
	data, err := json.Marshal(config)
	require.NoError(t, err)
	file := "task-" + id + ".json"
	require.NoError(t, os.WriteFile(filepath.Join(u.parts, file), data, 0o644))
	return u.d.Inside(u.name, fmt.Sprintf("%s %s --config %s/%s %s", client, how, parts, file, id))
}

const privileged = "privileged=true"

// opens is what a task reports of the nodes that it can open for reading and writing.
const opens = `for n in /dev/kfd /dev/dri/*; do if [ -c $n ] && (exec 3<>$n) 2>/dev/null; then echo $n; fi; done`

func taskConfig(dir, id, line string, ids []any, env []string) map[string]any {
	mount := func(destination, kind, source string, options ...string) any {
		return map[string]any{"destination": destination, "type": kind, "source": source, "options": options}
	}
	var namespaces []any
	for _, n := range []string{"pid", "ipc", "uts", "mount", "network", "user"} {
		if n != "user" || ids != nil {
			namespaces = append(namespaces, map[string]any{"type": n})
		}
	}
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_MKNOD", "CAP_SETGID", "CAP_SETUID"}
	return map[string]any{
		"ociVersion": "1.0.2", "hostname": "task", "root": map[string]any{"path": dir + "/rootfs"},
		"process": map[string]any{
			"user": map[string]any{"uid": 0, "gid": 0}, "cwd": "/", "env": append([]string{"PATH=/bin"}, env...),
			"args":         []string{"/bin/busybox", "sh", "-c", line},
			"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
		},
		"linux": map[string]any{
			"cgroupsPath": "garden/" + id, "namespaces": namespaces, "uidMappings": ids, "gidMappings": ids,
			"resources": map[string]any{"devices": []any{map[string]any{"allow": false, "access": "rwm"}}},
		},
		"mounts": []any{
			mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
			mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
			mount("/tmp/build/0badcafe", "bind", dir+"/volume", "bind", "rw"),
		},
	}
}
