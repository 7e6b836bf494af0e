package resource_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The file systems of a machine are mounted at all depths, and one through a link.
func TestRemovedTreeKeepsMountedFileSystems(t *testing.T) {
	const mounts = rootMount + "31 20 8:2 / /data/ci/volumes/cache rw - ext4 /dev/sdb rw\n" +
		"32 20 8:1 /home/a /data/ci/a\\040b rw - ext4 /dev/sda1 rw\n" + "33 20 8:3 / /data/ci2 rw - ext4 /dev/sdc rw\n"
	for name, tt := range map[string]struct {
		tree string
		want []string // paths that stay below /data
	}{
		"below":           {"/var/ci", []string{"ci/a b/1", "ci/volumes/cache/1", "ci2/1"}},
		"at the path":     {"/var/ci/a b", []string{"ci/a b/1", "ci/own/1", "ci/volumes/1", "ci/volumes/cache/1", "ci2/1"}},
		"none":            {"/var/ci/own", []string{"ci/a b/1", "ci/volumes/1", "ci/volumes/cache/1", "ci2/1"}},
		"missing":         {"/var/none/1", []string{"ci/a b/1", "ci/own/1", "ci/volumes/1", "ci/volumes/cache/1", "ci2/1"}},
		"a similar name":  {"/data/c", []string{"ci/a b/1", "ci/own/1", "ci/volumes/1", "ci/volumes/cache/1", "ci2/1"}},
		"a link and file": {"/var/link", []string{"ci/a b/1", "ci/own/1", "ci/volumes/1", "ci/volumes/cache/1", "ci2/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := host.Host{Root: hosttest.Root(t)}
			hosttest.Put(t, h.Root, "/proc/self/mountinfo", mounts)
			for _, file := range []string{"ci/own/1", "ci/volumes/1", "ci/volumes/cache/1", "ci/a b/1", "ci2/1"} {
				hosttest.Put(t, h.Root, "/data/"+file, "x")
			}
			require.NoError(t, os.Symlink("data", h.Path("/var")))
			require.NoError(t, os.Symlink("ci", h.Path("/data/link")))
			_, err := resource.RemoveTree(h.Root, tt.tree)
			require.NoError(t, err)
			var left []string
			require.NoError(t, filepath.WalkDir(h.Path("/data"), func(p string, e os.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					rel, _ := filepath.Rel(h.Path("/data"), p)
					left = append(left, rel)
				}
				return err
			}))
			require.Equal(t, tt.want, left)
			_, err = os.Lstat(h.Path("/data/link"))
			require.Equal(t, name == "a link and file", os.IsNotExist(err), "a link is removed, not followed")
		})
	}
}

func TestFolderWithAMountIsNotAbsent(t *testing.T) {
	h := host.Host{Root: hosttest.Root(t)}
	hosttest.Put(t, h.Root, "/proc/self/mountinfo", rootMount+"31 20 8:2 / /opt/ci/disk rw - ext4 /dev/sdb rw\n")
	hosttest.Put(t, h.Root, "/opt/ci/disk/1", "x")
	p, err := plan.Diff(t.Context(), h, resource.Absent{Path: "/opt/ci", Tree: true})
	require.NoError(t, err)
	_, err = p.Apply(t.Context(), nil)
	require.EqualError(t, err, "cannot remove /opt/ci: a file system is mounted on /opt/ci/disk; unmount it")
	require.True(t, h.Exists("/opt/ci/disk/1"))
}
