package hosttest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host"
)

// HostsDir is the folder of the fixture hosts in the source tree, one folder
// a machine: sysfs with its links, stand-ins for the nodes below /dev (see
// host.Root.Node), and the few files of /proc, /etc and /run that name the
// machine. hosts/README.md says what each one is.
func HostsDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "hosts")
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
