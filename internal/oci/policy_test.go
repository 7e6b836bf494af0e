package oci

import (
	"os"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var gpu0 = []edits.Rule{
	{Allow: true, Type: "c", Major: 10, Minor: 229, Access: "rwm"}, // Concourse's own
	allowed(235, 0), allowed(226, 0), allowed(226, 128),
}

func allowed(major, minor uint32) edits.Rule {
	return edits.Rule{Allow: true, Type: "c", Major: major, Minor: minor, Access: "rw"}
}

func bound(path, source string) edits.Mount {
	return edits.Mount{Destination: path, Type: "bind", Source: source,
		Options: []string{"bind", "rw", "nosuid", "noexec"}}
}

func (r result) added(before int) []edits.Mount { return r.Mounts[before:] }

func TestUserNamespaceGetsPrivateNodes(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	before := len(b.result(t).Mounts)
	require.NoError(t, b.create())
	r := b.result(t)
	require.Equal(t, gpu0, r.Linux.Resources.Devices)
	require.Equal(t, []edits.Mount{
		bound("/dev/kfd", b.path("nodes/c235-0")),
		bound("/dev/dri/card0", b.path("nodes/c226-0")),
		bound("/dev/dri/renderD128", b.path("nodes/c226-128")),
	}, r.added(before))
	require.Empty(t, r.Linux.Devices)
	require.Empty(t, r.Process.User.AdditionalGids)
	st, err := os.Stat(b.path("nodes"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
	require.NoDirExists(t, b.path("state"), "no marker is needed")
}

func TestPrivateNodesAreReusedUnlessWrong(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	require.NoError(t, b.create())
	require.NoError(t, b.create())
	require.Len(t, b.made, 3)
	b.node(b.path("nodes/c226-0"), 0o600, 0, unix.Mkdev(226, 0)) // someone closed it
	b.node(b.path("nodes/c226-128"), 0o666, 0, unix.Mkdev(1, 3)) // another device
	require.NoError(t, b.create())
	require.Len(t, b.made, 5)
	entries, err := os.ReadDir(b.path("nodes"))
	require.NoError(t, err)
	require.Len(t, entries, 3, "no temporary node stays")
}

func TestUserNamespaceGetsAnOpenHostNode(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	for p, n := range b.nodes {
		n.Mode |= 0o006
		b.nodes[p] = n
	}
	before := len(b.result(t).Mounts)
	require.NoError(t, b.create())
	r := b.result(t)
	require.Equal(t, []edits.Mount{bound("/dev/kfd", "/dev/kfd"), bound("/dev/dri/card0", "/dev/dri/card0"),
		bound("/dev/dri/renderD128", "/dev/dri/renderD128")}, r.added(before))
	require.Equal(t, gpu0, r.Linux.Resources.Devices)
	require.Empty(t, b.made)
}

func TestPrivilegedContainerGetsDevicesOpenToAnyUser(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task", privileged)
	before := len(b.result(t).Mounts)
	require.NoError(t, b.create())
	r := b.result(t)
	require.Equal(t, []edits.Mount{b.described()}, r.added(before))
	require.Equal(t, []edits.Device{
		{Path: "/dev/kfd", Type: "c", Major: 235, Minor: 0, FileMode: 0o666}, {Path: "/dev/dri/card0",
			Type: "c", Major: 226, Minor: 0, FileMode: 0o666}, {Path: "/dev/dri/renderD128", Type: "c", Major: 226, Minor: 128, FileMode: 0o666},
	}, r.Linux.Devices)
	require.Equal(t, gpu0, r.Linux.Resources.Devices)
}

// Inside LXD, also for a privileged container. Its other users would otherwise have no way
// to open a node of mode 0660.
func TestWithoutMknodHostNodesAndTheirGroupAreGiven(t *testing.T) {
	for name, change := range map[string]func(map[string]any){"user namespace": func(map[string]any) {},
		"privileged": privileged} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t)
			b.refuseMknod()
			b.bundle(t, "task", change)
			before := len(b.result(t).Mounts)
			require.NoError(t, b.create())
			r := b.result(t)
			want := []edits.Mount{bound("/dev/kfd", "/dev/kfd"), bound("/dev/dri/card0", "/dev/dri/card0"),
				bound("/dev/dri/renderD128", "/dev/dri/renderD128")}
			if name == "privileged" {
				want = append(want, b.described())
			}
			require.Equal(t, want, r.added(before))
			require.Empty(t, r.Linux.Devices)
			require.Equal(t, []uint32{992}, r.Process.User.AdditionalGids)
			require.Equal(t, gpu0, r.Linux.Resources.Devices)
		})
	}
}

func TestGroupIsTranslatedIntoTheContainer(t *testing.T) {
	f := facts{userNS: true, gidMaps: []idMap{{0, 4294967294, 1}, {1, 1, 4294967293}}}
	for gid, want := range map[uint32]uint32{992: 992, 1: 1, 4294967294: 0, 4294967293: 4294967293} {
		got, ok := f.containerGID(gid)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	_, ok := f.containerGID(0)
	require.False(t, ok)
	got, ok := facts{userNS: true, gidMaps: []idMap{{0, 100000, 65536}}}.containerGID(100992)
	require.True(t, ok)
	require.Equal(t, uint32(992), got)
}

func TestWithoutMknodUnusableGroupsAreRefused(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	for want, n := range map[string][2]uint32{
		"its group 0 has no number in the container's user namespace": {0o660, 0},
		"its group has no number in this machine's user namespace":    {0o660, 65534},
		"its mode is 0640, which lets no group read and write":        {0o640, 992},
	} {
		b := newTestbed(t)
		b.refuseMknod()
		b.bundle(t, "task")
		b.node("/dev/kfd", n[0], n[1], unix.Mkdev(235, 0))
		before := b.text(t)
		err := b.create()
		require.ErrorContains(t, err, "cannot give the task /dev/kfd: "+want)
		require.ErrorContains(t, err, "— on the LXD host run: "+wellknown.Manager{Name: host}.OpenKFD("override"))
		require.NotContains(t, err.Error(), "0666", "the status and the docs say gid=44")
		require.Nil(t, b.argv, "runc must not start")
		require.Equal(t, before, b.text(t))
		require.NoFileExists(t, b.path("state/c1"))
	}
}

// AMD's runtime turns a missing node into device 0:0.
func TestMissingStaleAndFalseNodesAreRefused(t *testing.T) {
	for want, change := range map[string]func(b *testbed){
		"/dev/kfd is missing on this machine": func(b *testbed) { delete(b.nodes, "/dev/kfd") },
		"is stale: it has 235:0 for /dev/kfd, which is 236:0 now": func(b *testbed) {
			b.node("/dev/kfd",
				0o660, 992, unix.Mkdev(236, 0))
		},
		"/dev/kfd is not a character device": func(b *testbed) { b.nodes["/dev/kfd"] = unix.Stat_t{Mode: unix.S_IFLNK | 0o777} },
		"/dev/dri/card0 is not a character " +
			"device": func(b *testbed) { b.nodes["/dev/dri/card0"] = unix.Stat_t{Mode: unix.S_IFREG | 0o666} },
	} {
		b := newTestbed(t)
		b.bundle(t, "task")
		change(b)
		before := b.text(t)
		require.ErrorContains(t, b.create(), want)
		require.Nil(t, b.argv)
		require.Equal(t, before, b.text(t))
	}
}

// D44: the unit's choice of GPUs changed nothing.
func TestUnselectedGPUIsNotInspected(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	delete(b.nodes, "/dev/dri/card1")
	require.NoError(t, b.create())
	require.NotContains(t, b.text(t), "renderD129")
}

func TestDirectoryForNodesMustBePrivate(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	require.NoError(t, os.Mkdir(b.path("nodes"), 0o755))
	require.ErrorContains(t, b.create(), "is not a directory of mode 0700")
	require.NoError(t, os.Remove(b.path("nodes")))
	require.NoError(t, os.Mkdir(b.path("elsewhere"), 0o700))
	require.NoError(t, os.Symlink(b.path("elsewhere"), b.path("nodes")))
	require.ErrorContains(t, b.create(), "is not a directory of mode 0700")
	require.Empty(t, b.made)
}
