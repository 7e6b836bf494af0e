package hosttest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
)

// HostsDir is the folder of the fixture hosts in the source tree, one folder
// a machine: sysfs with its links, stand-ins for the nodes below /dev (see
// host.Root.Node), and the few files of /proc, /etc and /run that name the
// machine. hosts/README.md says what each one is.
//
// It is looked for above the working folder, which is a test's own package: this
// file's path is one that a build with -trimpath does not know.
func HostsDir() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		hosts := filepath.Join(dir, "internal/testutil/hosttest/hosts")
		if _, gone := os.Stat(hosts); gone == nil {
			return hosts
		}
	}
	panic("cannot find the fixture hosts: the working folder is outside the source tree")
}

// HostNames lists the fixture hosts, sorted.
func HostNames() []string {
	entries, err := os.ReadDir(HostsDir())
	if err != nil {
		panic("cannot list fixture hosts: " + err.Error()) // no test could run
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// Host returns a copy of a fixture host that the test may change.
func Host(t testing.TB, name string) host.Root {
	t.Helper()
	require.Contains(t, HostNames(), name)
	return Root(t, filepath.Join(HostsDir(), name))
}

// Link makes a symbolic link below the root, making its directories.
func Link(t testing.TB, r host.Root, path, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(r.Path(path)), 0o755))
	require.NoError(t, os.Symlink(to, r.Path(path)))
}
