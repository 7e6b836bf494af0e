//go:build e2e

package charm

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tools/charmpack"
)

// version is what the charms here are built as.
const version = "v0.0-charm-test"

func TestCharmOfThisMachineRuns(t *testing.T) {
	file := makeCharm(t, runtime.GOARCH)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(charmpack.MaxSize))
	dir := unpack(t, file)

	t.Run("dispatch starts from it with an empty environment", func(t *testing.T) {
		c := exec.Command("./dispatch", "--help")
		c.Dir, c.Env = dir, []string{}
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "Usage: dispatch COMMAND")
	})
	t.Run("the other programs start", func(t *testing.T) {
		for _, argv := range [][]string{
			{"dispatch", "--version"}, {"bin/rocm-exporter", "--version"}, {"bin/concourse-exporter", "--version"}, {"bin/gpu-baseline", "--version"}, {"bin/gpu-device-plugin", "--version"}, {"bin/gpu-dra-driver", "--version"}, {"bin/pebble", "version", "--client"},
		} {
			out, err := exec.Command(filepath.Join(dir, argv[0]), argv[1:]...).CombinedOutput()
			require.NoError(t, err, "%s: %s", argv, out)
			if argv[0] == "bin/pebble" {
				require.Regexp(t, `^v1\.\d+`, string(out))
			} else {
				require.Contains(t, string(out), version, argv[0])
			}
		}
		small, err := os.Stat(filepath.Join(dir, "bin/gpu-baseline"))
		require.NoError(t, err)
		require.Less(t, small.Size(), int64(3.75e6), "tasks fetch it")
		c := exec.Command(filepath.Join(dir, "bin/runc-amd-wrapper"), "state", "x")
		c.Env = []string{"RUNC_AMD_RUNTIME=/bin/echo"}
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, "state x\n", string(out))
	})
	t.Run("a hook starts from it", func(t *testing.T) {
		c := exec.Command("hooks/update-status")
		c.Dir = dir
		c.Env = []string{"PATH=/usr/bin:/bin", "JUJU_DISPATCH_PATH=hooks/update-status",
			"JUJU_UNIT_NAME=worker/0", "JUJU_CHARM_DIR=" + dir, "CHARM_ROOT=" + t.TempDir()}
		out, err := c.CombinedOutput()
		require.Error(t, err, "there are no hook tools to ask: Juju has to run it again")
		require.Contains(t, string(out), "executable file not found", "it got as far as asking Juju")
	})
	t.Run("each file in hooks is the shim", func(t *testing.T) { shims(t, dir) })
}

// shims starts every hook from a copy of hooks/ that has a recording program
// for ../dispatch, with no environment but PATH, from another folder.
func shims(t *testing.T, charm string) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "hooks"), 0o755))
	record := "#!/bin/sh\necho \"$JUJU_DISPATCH_PATH $*\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dispatch"), []byte(record), 0o755))
	names, err := os.ReadDir(filepath.Join(charm, "hooks"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, e := range names {
		from, to := filepath.Join(charm, "hooks", e.Name()), filepath.Join(dir, "hooks", e.Name())
		info, err := os.Lstat(from)
		require.NoError(t, err)
		if info.Mode().Type() == fs.ModeSymlink {
			target, err := os.Readlink(from)
			require.NoError(t, err)
			require.NoError(t, os.Symlink(target, to))
			continue
		}
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, data, info.Mode().Perm()))
	}
	for _, e := range names {
		c := exec.Command(filepath.Join(dir, "hooks", e.Name()), "an argument")
		c.Dir, c.Env = "/", []string{"PATH=/usr/bin:/bin"}
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", e.Name(), out)
		require.Equal(t, "hooks/"+e.Name()+" an argument\n", string(out))
	}
}

// D66: the predecessor had no arm64 although Concourse does.
func TestD66CharmForArm64HoldsArm64Programs(t *testing.T) {
	other, machine := "arm64", elf.EM_AARCH64
	if runtime.GOARCH == other {
		other, machine = "amd64", elf.EM_X86_64
	}
	dir := unpack(t, makeCharm(t, other))
	for _, name := range []string{"dispatch", "bin/runc-amd-wrapper", "bin/rocm-exporter", "bin/concourse-exporter", "bin/gpu-baseline", "bin/gpu-device-plugin", "bin/gpu-dra-driver", "bin/pebble"} {
		f, err := elf.Open(filepath.Join(dir, name))
		require.NoError(t, err, name)
		require.Equal(t, machine, f.Machine, name)
		require.NoError(t, f.Close())
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(manifest), "["+other+"]")
}
