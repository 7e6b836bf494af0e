//go:build e2e

package container

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// nestedRoot is what a nested machine's root is on this one.
const nestedRoot = 1000000

// nested makes the bed one inside an LXD-like machine: all commands run in a user
// namespace, with a root that can make no device nodes. Nodes are the machine's.
func nested(t *testing.T, mode os.FileMode, gid int) *bed {
	t.Helper()
	need(t)
	const base, size = nestedRoot, 65536
	keeper := exec.Command("busybox", "sleep", "600")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: size}}
	keeper.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
	}
	require.NoError(t, keeper.Start())
	t.Cleanup(func() {
		require.NoError(t, keeper.Process.Kill())
		require.Error(t, keeper.Wait())
	})
	require.NoError(t, os.Chown("/dev", base, base))
	t.Cleanup(func() { require.NoError(t, os.Chown("/dev", 0, 0)) })
	b := newBed(t, mode) // after the keeper, so that it is cleaned up before
	b.enter = []string{"nsenter", "-t", strconv.Itoa(keeper.Process.Pid), "-U", "-m", "-S", "0", "-G", "0", "--"}
	b.offset = base
	b.hostNodes(mode, base, base+gid)
	b.write("amd.json", spec(t)) // again, as that root's
	b.configure(b.unit)
	return b
}

// ownCgroup makes a cgroup that a nested machine's root may divide, as LXD does, and
// returns what a command of that machine must go through to be in it. A lease can see the
// container's processes only by a cgroup of theirs.
func ownCgroup(t *testing.T, name string, owner int) (enter []string) {
	t.Helper()
	dir := "/sys/fs/cgroup/pids/" + name
	files := []string{"", "cgroup.procs", "tasks"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil { // cgroup v2
		dir, files = "/sys/fs/cgroup/"+name, []string{"", "cgroup.procs", "cgroup.subtree_control"}
	}
	own := filepath.Join(dir, "own") // with cgroup v2 runc makes the container's beside its own
	for _, d := range []string{dir, own} {
		require.NoError(t, os.Mkdir(d, 0o755))
		t.Cleanup(func() { require.NoError(t, os.Remove(d)) })
		for _, f := range files {
			require.NoError(t, os.Chown(filepath.Join(d, f), owner, owner))
		}
	}
	return []string{"busybox", "sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, own}
}

// concourseNested is what Concourse makes of 65536 IDs.
var concourseNested = []idMap{{0, 65535, 1}, {1, 1, 65534}}

func TestGroupThatATaskInsideLXDCannotHaveIsRefused(t *testing.T) {
	b := nested(t, 0o660, 0)
	b.maps = concourseNested
	b.bundle()
	var out bytes.Buffer
	require.Error(t, b.runc(&out, "create", "--bundle", b.path("bundle"), b.id))
	require.Contains(t, out.String(), "cannot give the task /dev/kfd: its group 0 has no number in the container's user namespace")
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Contains(t, out.String(), "— on the LXD host run: "+wellknown.Manager{Name: host}.OpenKFD("override"))
}
