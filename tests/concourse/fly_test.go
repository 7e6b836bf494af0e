//go:build e2e

package concourse

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
)

// fly is Concourse's own client, of the same release.
type fly struct {
	t             *testing.T
	home, program string
}

// newFly is logged in at the web.
func newFly(t *testing.T, home, at, password string) *fly {
	t.Helper()
	dir, err := unpacked()
	require.NoError(t, err)
	f := &fly{t: t, home: home}
	require.NoError(t, guest.Command("tar", "-xzf", filepath.Join(dir, "fly-assets", "fly-linux-"+runtime.GOARCH+".tgz"), "-C", f.home))
	f.program = filepath.Join(f.home, "fly")
	f.must("login", "-c", at, "-u", "admin", "-p", password)
	return f
}

func (f *fly) run(args ...string) (string, error) {
	out, err := f.command(args...).CombinedOutput()
	return string(out), err
}

func (f *fly) command(args ...string) *exec.Cmd {
	c := exec.Command(f.program, append([]string{"-t", "test"}, args...)...)
	c.Dir = f.home
	c.Env = append(os.Environ(), "HOME="+f.home)
	return c
}

func (f *fly) must(args ...string) string {
	f.t.Helper()
	out, err := f.run(args...)
	require.NoError(f.t, err, "fly %s: %s", args[0], out)
	return out
}

// write makes a file that fly is given.
func (f *fly) write(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.home, name)
	require.NoError(f.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
