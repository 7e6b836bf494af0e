package lxdhost

import (
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Cgroups lists the control groups that LXC makes: lxc.monitor.NAME,
// lxc.payload.NAME and lxc.pivot, which it never removes.
func Cgroups(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // it went while we looked
			return nil
		}
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), "lxc.") {
			found = append(found, path)
		}
		return err
	})
	require.NoError(t, err)
	sort.Strings(found)
	return found
}

// RemoveCgroups removes what came since before, deepest first. A group that
// still has a process can't be removed and stays for the test to find.
func RemoveCgroups(t *testing.T, before []string) {
	t.Helper()
	old := map[string]bool{}
	for _, path := range before {
		old[path] = true
	}
	for _, top := range Cgroups(t) {
		if old[top] {
			continue
		}
		var dirs []string
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // it may be missing already
		})
		require.NoError(t, err)
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := os.Remove(dirs[i]); err != nil && !os.IsNotExist(err) {
				t.Logf("cannot remove %s: %v", dirs[i], err)
			}
		}
	}
}

// NothingLeft checks, once the daemon is stopped, that the machine is as it
// was: no process, mount, control group or network device of its making.
func NothingLeft(t *testing.T, d *Host, groups []string, links []string) {
	t.Helper()
	require.Empty(t, d.Processes(), "processes")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), d.Dir, "mounts")
	require.Equal(t, groups, Cgroups(t), "control groups")
	require.Equal(t, links, NetworkLinks(t), "network devices")
}

func NetworkLinks(t *testing.T) []string {
	t.Helper()
	links, err := filepath.Glob("/sys/class/net/*")
	require.NoError(t, err)
	return links
}
