//go:build e2e

package rocm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

const (
	description = "/etc/cdi/amd.json"
	dockerFile  = "/etc/docker/daemon.json"
	docker      = "{\n  \"data-root\": \"/srv/docker\",\n  \"runtimes\": {\n    \"amd\": {\"path\": \"amd-container-runtime\"}\n  }\n}\n"
)

// foreign is files of others that AMD's package deletes and edits.
func (u *unit) foreign() {
	u.t.Helper()
	u.put("/etc/cdi/nvidia.json", `{"kind":"nvidia.com/gpu"}`)
	u.put("/etc/cdi/site/fpga.yaml", "kind: example.com/fpga\n")
	u.put(dockerFile, docker)
	for path, mode := range map[string]fs.FileMode{"/etc/cdi": 0o751, "/etc/cdi/site": 0o700, "/etc/cdi/site/fpga.yaml": 0o640, dockerFile: 0o600} {
		require.NoError(u.t, os.Chmod(u.Root.Path(path), mode))
		require.NoError(u.t, os.Chown(u.Root.Path(path), 1234, 44))
	}
	require.NoError(u.t, os.Symlink("site/fpga.yaml", u.Root.Path("/etc/cdi/fpga.yaml")))
}

// others is all that lies there but the charm's own description: modes, owners,
// contents and times.
func (u *unit) others() (lines []string) {
	u.t.Helper()
	for _, top := range []string{"/etc/cdi", "/etc/docker"} {
		require.NoError(u.t, filepath.WalkDir(u.Root.Path(top), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			require.NoError(u.t, err)
			name := u.Root.Rel(path)
			if name == description {
				return nil
			}
			st, err := d.Info()
			require.NoError(u.t, err)
			owner := st.Sys().(*syscall.Stat_t)
			line := fmt.Sprintf("%s %s %d:%d ", name, st.Mode(), owner.Uid, owner.Gid)
			switch {
			case st.Mode().IsRegular():
				data, err := os.ReadFile(path)
				require.NoError(u.t, err)
				line += st.ModTime().String() + " " + string(data)
			case st.Mode()&fs.ModeSymlink != 0:
				to, err := os.Readlink(path)
				require.NoError(u.t, err)
				line += to
			}
			lines = append(lines, line)
			return nil
		}))
	}
	return lines
}

// killed runs a hook that ends when AMD's package has deleted half of what it
// deletes, together with the given programs of those that lead to it.
func (u *unit) killed(hook string, programs ...string) {
	u.t.Helper()
	u.put(killers, strings.Join(append(programs, "dispatch"), "\n")+"\n")
	var r sandbox.Result
	require.NoError(u.t, u.inside(func() (err error) {
		r, err = u.Hook(hook)
		return err
	}))
	require.Equal(u.t, -1, r.Code, r.Output)
	require.False(u.t, u.Root.Exists(killers))
	require.False(u.t, u.Root.Exists(description), "nothing was deleted")
}

// aside is Docker's settings as another hook found them: it can't see who changed them
// after the first one was killed.
func (u *unit) aside() {
	u.t.Helper()
	found, err := u.Root.ReadFile(dockerFile + ".found-by-concourse")
	require.NoError(u.t, err)
	require.NotContains(u.t, string(found), "amd")
	u.remove(dockerFile + ".found-by-concourse")
}

// AMD's package deletes /etc/cdi and edits Docker's settings when it is removed or
// replaced. What is there of others stays as it is, and the charm's own
// description is back in the same hook.
func TestFilesOfOthersSurviveAMDsPackage(t *testing.T) {
	t.Parallel()
	u, s := toolkitUnit(t)
	s.publish("/amd-container-toolkit/apt/1.1.0", keys.good, time.Time{}, toolkit+" 1.1.0")
	u.hook("install")
	u.installed()
	u.foreign()
	want := u.others()
	require.Len(t, want, 7)
	option := func(name string, value any) { require.NoError(t, u.Model.SetConfig(name, value)) }
	kept := func(installed string) {
		t.Helper()
		require.Equal(t, want, u.others())
		require.Equal(t, installed, u.dpkg(toolkit))
		require.NotContains(t, u.hook("update-status").Plan(), toolkit, "a second run plans nothing")
		require.Equal(t, want, u.others())
	}

	option("amd-container-toolkit", "1.1.0")
	plan := u.hook("config-changed").Plan()
	require.Contains(t, plan, "install amd-container-toolkit (version 1.3.0~24.04, want 1.1.0; /etc/cdi and /etc/docker/daemon.json are kept as they are)")
	require.True(t, u.Root.Exists(description), "the charm's own has to wait for another hook")
	kept("ii 1.1.0")

	option("amd-container-toolkit", "1.3.0")
	u.killed("config-changed", "apt-get", "dpkg")
	require.NotEqual(t, want, u.others())
	plan = u.hook("update-status").Plan()
	require.Contains(t, plan, "put back /etc/cdi and /etc/docker/daemon.json (amd-container-toolkit changed them, and the run that kept them was ended)")
	require.True(t, u.Root.Exists(description))
	require.Equal(t, "active: Worker ready (v8.2.5) (GPU: 1x AMD)", u.status(), "dpkg was completed")
	kept("ii 1.3.0~24.04")

	option("compute-runtime", "none")
	u.killed("config-changed") // apt goes on for as long as it can
	plan = u.hook("update-status").Plan()
	require.Contains(t, plan, "put back /etc/cdi")
	require.False(t, u.Root.Exists(description))
	u.aside()
	kept("")

	option("compute-runtime", "rocm")
	u.hook("config-changed")
	u.installed()
	kept("ii 1.3.0~24.04")
	u.hook("stop")
	u.killed("remove")
	u.hook("remove")
	u.aside()
	require.Equal(t, want, u.others())
	require.Empty(t, u.dpkg(toolkit))
	require.False(t, u.Root.Exists(description))
	require.False(t, u.Root.Exists("/var/lib/concourse-ci-machine"))
}
