//go:build e2e

package container

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// refused calls create and returns what the user would see.
func (b *bed) refused() (string, error) {
	b.bundle()
	var out bytes.Buffer
	err := b.runc(&out, "create", "--bundle", b.path("bundle"), b.id)
	return out.String(), err
}

func TestFullDiskIsRefusedAndLeavesTheBundleAsItWas(t *testing.T) {
	b := newBed(t, 0o660)
	b.maps = concourse
	b.bundle()
	config, err := os.ReadFile(b.path("bundle/config.json"))
	require.NoError(t, err)
	small := b.path("small")
	require.NoError(t, os.Mkdir(small, 0o700))
	require.NoError(t, syscall.Mount("tmpfs", small, "tmpfs", 0, "size=8k,nr_inodes=10"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(small, syscall.MNT_DETACH)) })
	require.NoError(t, os.WriteFile(filepath.Join(small, "config.json"), config, 0o600))
	require.Less(t, len(config), 4096)
	require.NoError(t, os.WriteFile(filepath.Join(small, "fill"), make([]byte, 4096), 0o600))
	var out bytes.Buffer
	require.Error(t, b.runc(&out, "create", "--bundle", small, b.id))
	require.Contains(t, out.String(), "runc-amd-wrapper: cannot replace "+small+"/config.json: no space left on device")
	left, err := os.ReadFile(filepath.Join(small, "config.json"))
	require.NoError(t, err)
	require.Equal(t, string(config), string(left))
	entries, err := os.ReadDir(small)
	require.NoError(t, err)
	require.Len(t, entries, 2, "no temporary file stays")
	require.NoError(t, b.runc(&out, "delete", "--force", b.id))
}

// A container without its marker would have tasks without their environment.
func TestFullStateDirectoryIsRefused(t *testing.T) {
	b := newBed(t, 0o660)
	b.configure(oci.Config{GPUs: oneGPU, Env: map[string]string{"A": strings.Repeat("b", 9000)}})
	state := b.path("state")
	require.NoError(t, os.Mkdir(state, 0o700))
	require.NoError(t, syscall.Mount("tmpfs", state, "tmpfs", 0, "size=8k,mode=700"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(state, syscall.MNT_DETACH)) })
	out, err := b.refused()
	require.Error(t, err)
	require.Contains(t, out, "cannot write marker of container "+b.id+": no space left on device")
	entries, err := os.ReadDir(state)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Both read, both edit, both rename: whichever is last, the bundle is whole.
func TestTwoWrappersAtOnceOnOneBundle(t *testing.T) {
	b := newBed(t, 0o660)
	b.maps = concourse
	b.real = "/bin/true"
	if _, err := os.Stat(b.real); err != nil {
		b.real = "/usr/bin/true"
	}
	b.configure(oci.Config{GPUs: oneGPU, Env: map[string]string{"A": "b"}})
	b.bundle()
	for range 20 {
		b.write("bundle/config.json", b.config())
		var calls []*exec.Cmd
		for range 4 {
			c := exec.Command(b.wrapper(), "--root", b.path("root/concourse"), "create", "--bundle", b.path("bundle"), b.id)
			c.Env = append(os.Environ(), oci.EnvConfig+"="+b.path("wrapper.json"))
			c.Stderr = os.Stderr
			require.NoError(t, c.Start())
			calls = append(calls, c)
		}
		for _, c := range calls {
			require.NoError(t, c.Wait())
		}
		data, err := os.ReadFile(b.path("bundle/config.json"))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(data), `"destination":"/dev/kfd"`))
		require.Equal(t, 1, strings.Count(string(data), `"A=b"`))
	}
	entries, err := os.ReadDir(b.path("bundle"))
	require.NoError(t, err)
	require.Len(t, entries, 2, "config.json and rootfs")
	b.real, err = exec.LookPath("runc") // for the cleanup
	require.NoError(t, err)
	b.configure(b.unit)
}

// D52: the built program behind a link to itself ends at once.
func TestWrapperBehindItselfIsRefused(t *testing.T) {
	b := newBed(t, 0o660)
	require.NoError(t, os.Symlink(filepath.Join(os.Getenv(insideEnv), "runc-amd-wrapper"), b.path("link")))
	debian := b.real
	b.use(b.path("link"))
	out, err := b.refused()
	require.Error(t, err)
	require.Contains(t, out, "it is this wrapper itself; set runtime in ")
	b.use(debian)
}
