package lxdhost

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Need skips if this machine has no LXD to run privately. Under `make e2e` (E2E=1) only a
// release without the package is a reason to skip. more are other programs that the test
// needs.
func Need(t *testing.T, more ...string) {
	t.Helper()
	for _, p := range strings.Split(os.Getenv("E2E_WITHOUT"), ",") {
		if p == "lxd" || p == "lxd-client" {
			t.Skipf("this release has no package %s", p)
		}
	}
	missing := t.Skipf
	if os.Getenv("E2E") == "1" {
		missing = t.Fatalf
	}
	if os.Getuid() != 0 {
		missing("needs root")
	}
	for _, name := range more {
		if _, err := exec.LookPath(name); err != nil {
			missing("%v; `make e2e` installs it", err)
		}
	}
	for _, name := range []string{"lxc", "busybox", "unshare", "nsenter", "lxd"} {
		path, err := exec.LookPath(name)
		if err != nil {
			missing("%v; `make e2e` installs it", err)
		}
		path, err = filepath.EvalSymlinks(path)
		require.NoError(t, err)
		f, err := elf.Open(path)
		if err != nil || filepath.Base(path) == "snap" {
			missing("%s is not Debian's: %s", name, path)
		}
		f.Close()
	}
}
