//go:build e2e

package container

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nested makes the bed one inside an LXD-like machine: all commands run in a
// user namespace, whose root can make no device nodes. Nodes are the machine's.
func nested(t *testing.T, mode os.FileMode, gid int) *bed {
	t.Helper()
	need(t)
	const base, size = 1000000, 65536
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

// concourseNested is what Concourse makes of 65536 IDs.
var concourseNested = []idMap{{0, 65535, 1}, {1, 1, 65534}}

func TestGroupThatATaskInsideLXDCannotHaveIsRefused(t *testing.T) {
	b := nested(t, 0o660, 0)
	b.maps = concourseNested
	b.bundle()
	var out bytes.Buffer
	require.Error(t, b.runc(&out, "create", "--bundle", b.path("bundle"), b.id))
	require.Contains(t, out.String(), "cannot give the task /dev/kfd: its group 0 has no number in the container's user namespace")
	require.Contains(t, out.String(), "lxc config device set ")
}
