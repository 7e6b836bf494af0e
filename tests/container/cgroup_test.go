//go:build e2e

package container

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onEachCgroup runs a test on each version of cgroups that the machine has.
func onEachCgroup(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	need(t)
	const root = "/sys/fs/cgroup"
	there := func(path string) bool {
		_, err := os.Stat(root + path)
		return err == nil
	}
	t.Run("cgroup v1", func(t *testing.T) {
		if !there("/devices/cgroup.procs") {
			t.Skip("the devices controller of cgroup v1 is not mounted here")
		}
		test(t, "v1")
	})
	t.Run("cgroup v2", func(t *testing.T) {
		if !there("/cgroup.controllers") {
			if !there("/unified/cgroup.controllers") {
				t.Skip("cgroup v2 is not mounted here")
			}
			// A new mount of it would set the options of the machine's own.
			require.NoError(t, unix.Mount(root+"/unified", root, "", unix.MS_BIND, ""))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(root, 0)) })
		}
		test(t, "v2")
	})
}
