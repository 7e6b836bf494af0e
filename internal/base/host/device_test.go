package host_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestNodeStandIns(t *testing.T) {
	r := hosttest.Root(t)
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	for content, want := range map[string]host.Node{
		"":                       {Mode: 0o644, UID: uid, GID: gid, Any: true},
		"226:128\n":              {Major: 226, Minor: 128, Mode: 0o644, UID: uid, GID: gid},
		"226:128 660 0 992\n":    {Major: 226, Minor: 128, Mode: 0o660, GID: 992},
		"235:0 0666 65534 65534": {Major: 235, Mode: 0o666, UID: 65534, GID: 65534},
		"235:0 7777 0 0":         {Major: 235, Mode: 0o777},
	} {
		hosttest.Put(t, r, "/dev/kfd", content)
		want.Path = "/dev/kfd"
		got, err := r.Node("/dev/kfd")
		require.NoError(t, err, content)
		require.Equal(t, want, got, content)
	}
	for _, content := range []string{"226", "226:", ":1", "-1:1", "226:x", "4294967296:1", "226:128 660", "226:128 660 0",
		"226:128 888 0 992", "226:128 660 x 992", "226:128 660 0 992 1", "some text"} {
		hosttest.Put(t, r, "/dev/kfd", content)
		_, err := r.Node("/dev/kfd")
		require.Error(t, err, content)
	}
}

func TestInvalidNodesAreRefused(t *testing.T) {
	r := hosttest.Root(t)
	_, err := r.Node("/dev/kfd")
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, r.MkdirAll("/dev/dri", 0o755))
	_, err = r.Node("/dev/dri")
	require.ErrorIs(t, err, host.ErrNotDevice)

	hosttest.Put(t, r, "/dev/real", "226:128")
	require.NoError(t, os.Symlink("real", r.Path("/dev/link")))
	_, err = r.Node("/dev/link")
	require.ErrorIs(t, err, host.ErrNotDevice, "a link is not followed")

	_, err = host.Root("/").Node("/etc/hostname")
	require.ErrorIs(t, err, host.ErrNotDevice, "on a machine itself no file stands in for a node")
}

func TestNodeOfThisMachine(t *testing.T) {
	n, err := host.Root("/").Node("/dev/null")
	require.NoError(t, err)
	require.Equal(t, "1:3", n.Number())
	require.True(t, n.Is(1, 3))
	require.False(t, n.Is(1, 5))
	require.False(t, n.Any)
	require.True(t, host.Node{Any: true}.Is(226, 128))
}

func FuzzParseNumber(f *testing.F) {
	f.Add("226:128\n")
	f.Add("0:0")
	f.Add(":")
	f.Fuzz(func(t *testing.T, s string) {
		major, minor, err := host.ParseNumber(s)
		if err != nil {
			return
		}
		again, least, err := host.ParseNumber(host.Node{Major: major, Minor: minor}.Number())
		require.NoError(t, err)
		require.Equal(t, [2]uint32{major, minor}, [2]uint32{again, least})
	})
}
