package resource_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	rootMount = "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	srvMount  = "30 20 8:1 /srv /srv rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	srvSafe   = "30 20 8:1 /srv /srv rw,nosuid,nodev,relatime shared:1 - ext4 /dev/sda1 rw\n"
)

func TestSetuidProgramsBelowAFolderCountForNothing(t *testing.T) {
	for name, c := range map[string]struct {
		mounts string
		want   []string // commands
		left   string   // what HonoursSetuid reports of /srv afterwards, with unchanged mounts
	}{
		"part of the root file system":  {rootMount, []string{"mount --bind /srv /srv", "mount -o remount,bind,nosuid,nodev /srv"}, "/"},
		"killed between the two":        {rootMount + srvMount, []string{"mount -o remount,bind,nosuid,nodev /srv"}, "/srv"},
		"done":                          {rootMount + srvSafe, nil, ""},
		"covered by one that is unsafe": {rootMount + srvSafe + srvMount, []string{"mount -o remount,bind,nosuid,nodev /srv"}, "/srv"},
		"all of the machine is safe":    {"20 1 8:1 / / rw,nosuid,nodev - ext4 /dev/sda1 rw\n", nil, ""},
		"nodev is missing":              {rootMount + "30 20 8:2 / /srv rw,nosuid - xfs /dev/sda2 rw\n", []string{"mount -o remount,bind,nosuid,nodev /srv"}, "/srv"},
		"devices of LXD": {rootMount + "31 20 8:1 /data/a /srv/a\\040b_rw rw - ext4 /dev/sdb rw\n" + "32 20 0:40 / /srv/nfs rw - nfs4 server:/x rw\n",
			[]string{"mount -o remount,bind,nosuid,nodev /srv/a b_rw"}, "/"},
		"a folder of a longer name": {rootMount + "31 20 8:2 / /srv2 rw,nosuid,nodev - xfs /dev/sdc rw\n",
			[]string{"mount --bind /srv /srv", "mount -o remount,bind,nosuid,nodev /srv"}, "/"},
		"nothing known": {"", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.NewRunner(t).Answer("mount", "")
			h := host.Host{Root: hosttest.Root(t), Runner: r}
			require.NoError(t, h.MkdirAll("/srv", 0o755))
			if c.mounts != "" {
				hosttest.Put(t, h.Root, "/proc/self/mountinfo", c.mounts)
			}
			p, err := plan.Diff(context.Background(), h, resource.Nosuid{Dir: "/srv", Why: "tasks write there"})
			require.NoError(t, err)
			_, err = p.Apply(context.Background(), nil)
			require.NoError(t, err)
			require.Equal(t, c.want, r.Ran)
			left, err := resource.HonoursSetuid(h.Root, "/srv")
			require.NoError(t, err)
			require.Equal(t, c.left, left)
		})
	}
}

func TestMachineWithoutTheFolderHasNothingToMount(t *testing.T) {
	h := host.Host{Root: hosttest.Root(t), Runner: hosttest.NewRunner(t)}
	hosttest.Put(t, h.Root, "/proc/self/mountinfo", rootMount)
	p, err := plan.Diff(context.Background(), h, resource.Nosuid{Dir: "/srv", Why: "x"})
	require.NoError(t, err)
	require.Empty(t, p)
}

func TestMountinfoThatCanNotBeReadIsAnError(t *testing.T) {
	h := host.Host{Root: hosttest.Root(t), Runner: hosttest.NewRunner(t)}
	hosttest.Put(t, h.Root, "/proc/self/mountinfo", "x\n")
	_, err := resource.HonoursSetuid(h.Root, "/srv")
	require.ErrorContains(t, err, "not enough fields")
}
