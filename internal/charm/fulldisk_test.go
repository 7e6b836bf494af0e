package charm

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/jujutest"
)

func TestFullDiskIsNamedInTheStatus(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 20 0:40 / /var/lib/concourse rw - zfs pool/releases rw\n")
	at := func(path string, why error) error { return &fs.PathError{Op: "write", Path: r.Path(path), Err: why} }
	const free = "; free space there: juju ssh web/0 df -h"
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a write":           {at("/var/lib/concourse-charm/juju.json", syscall.ENOSPC), "disk full: no space for /var/lib/concourse-charm on /dev/sda1" + free},
		"a disk of its own": {fmt.Errorf("x: %w", at("/var/lib/concourse/8.2.5/bin/concourse", syscall.ENOSPC)), "disk full: no space for /var/lib/concourse/8.2.5/bin on pool/releases" + free},
		"a quota":           {at("/etc/default/concourse", syscall.EDQUOT), "disk full: no space for /etc/default on /dev/sda1" + free},
		"a link":            {&os.LinkError{Op: "symlink", Old: "x", New: r.Path("/opt/a"), Err: syscall.ENOSPC}, "disk full: no space for /opt on /dev/sda1" + free},
		"a program": {&host.CommandError{Argv: []string{"apt-get", "install"}, Code: 100, Stderr: "E: /a (No space left on device)\nE: Sub-process failed"},
			"a disk is full (E: Sub-process failed)" + free},
		"another error": {at("/x", syscall.EACCES), ""},
		"no error":      {nil, ""},
	} {
		require.Equal(t, c.want, fullDisk(r, "web/0", c.err), name)
	}
	require.Contains(t, fullDisk(hosttest.Root(t), "web/0", at("/a/b", syscall.ENOSPC)), " on its disk;", "nothing is known of mounts")
}

func TestFullDiskInAStepIsAStatusUntilTheUnitIsRemoved(t *testing.T) {
	full := &plan.StepError{Op: "write /x/y", Err: &fs.PathError{Op: "write", Path: "/x/y", Err: syscall.ENOSPC}}
	for _, remove := range []bool{false, true} {
		m := jujutest.New("web/0")
		c := charmOf(t, hosttest.Root(t), m, m.Begin(jujutest.Hook("config-changed")), nil)
		err := c.failed(t.Context(), Desired{Desired: role.Desired{Remove: remove}}, full)
		if remove {
			require.ErrorIs(t, err, syscall.ENOSPC, "what is left is taken away when the hook runs again")
			continue
		}
		require.NoError(t, err)
		require.Contains(t, m.Status().Message, "disk full: no space for /x")
	}
}

// What only one hook reports must not be lost with it.
func TestFullDiskBeforeTheFirstStepEndsOnlyHooksThatReadAllAgain(t *testing.T) {
	full := fmt.Errorf("cannot keep what Juju reports: %w", &fs.PathError{Op: "write", Path: "/x/y", Err: syscall.ENOSPC})
	for event, ends := range map[string]bool{"config-changed": true, "update-status": true, "start": true, "leader-elected": true,
		"upgrade-charm": false, "tsa-relation-departed": false, "install": false, "stop": false, "remove": false} {
		m := jujutest.New("web/0")
		c := charmOf(t, hosttest.Root(t), m, m.Begin(jujutest.Hook(event)), nil)
		err := c.showFull(t.Context(), full)
		require.Equal(t, ends, err == nil, event)
		require.Equal(t, "blocked", m.Status().Status, event)
		require.Contains(t, m.Status().Message, "disk full: no space for /x", event)
	}
}
