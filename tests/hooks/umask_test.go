package hooks

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The umask is the whole process's, so this test is not parallel to others.
func TestUnitIsTheSameWhateverTheUmaskOfItsHooks(t *testing.T) {
	worker := func() *unit {
		return processUnit(t, fixture("amd"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip", "gpu-sharing": "exclusive"})
	}
	open, closed := worker(), worker()
	modes := func(u *unit) map[string]string {
		u.giveKey()
		u.web()
		u.hook("install")
		u.flight("changed", "web/0")
		_, stderr, code := u.person("gpu", "leases")
		require.Zero(t, code, stderr)
		all := tree(u, "/etc", "/opt", "/run", "/srv", "/usr", "/var")
		for path, text := range all {
			all[path], _, _ = strings.Cut(text, " ")
		}
		return all
	}
	want := modes(open)
	old := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(old) })
	require.Equal(t, want, modes(closed))
	require.Equal(t, "drwxr-xr-x", want["/opt/concourse-ci-machine/bin"])
}
