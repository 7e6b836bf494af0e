//go:build e2e

package rocm

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// unit is a World with a root that is a whole Debian: the fixture host's files lie over the
// one that debootstrap made. dispatch runs in a chroot to it, with the real apt and dpkg;
// systemd is a stand-in.
type unit struct {
	*sandbox.World
	t *testing.T
}

// workerKey spares the units the making of one.
var workerKey = sync.OnceValue(func() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		panic(err) // only if the machine has no randomness
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
})

func newUnit(t *testing.T, hardware string, options map[string]any) *unit {
	t.Helper()
	need(t)
	w, err := sandbox.New(sandbox.Options{Host: filepath.Join(hosttest.HostsDir(), hardware), Charm: charmDir(), Exe: tools(), Unit: "worker/0"})
	require.NoError(t, err)
	u := &unit{w, t}
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.Model.Resources = map[string]string{"concourse-release": filepath.Join(top, "concourse.tgz")}
	require.NoError(t, w.Model.SetConfig("mode", "worker"))
	for name, value := range options {
		require.NoError(t, w.Model.SetConfig(name, value))
	}
	relation := w.Model.Relate(7, "flight", "web")
	relation.Units = map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "concourse-version": "8.2.5",
		"tsa-public-key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"}}
	require.NoError(t, w.Root.WriteFile("/var/lib/concourse-worker/keys/worker_key", workerKey(), 0o600))
	// apt-get is the real one, on the PATH that Juju gives a hook.
	tool := filepath.Join(w.Dir, "tools", "apt-get")
	require.NoError(t, os.Remove(tool))
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin exec /usr/bin/apt-get \"$@\"\n"), 0o755))
	require.NoError(t, w.Root.WriteFile("/proc/sys/kernel/osrelease", []byte(kernel+"\n"), 0o644))
	u.overlay()
	return u
}

// overlay puts the Debian below the World's root, and inside it, at their own
// paths, what dispatch needs from outside: the charm, its tools, its sockets,
// and the root itself, by the name that CHARM_ROOT has.
func (u *unit) overlay() {
	root, work := string(u.Root), filepath.Join(u.Dir, "work")
	require.NoError(u.t, os.Mkdir(work, 0o755))
	u.mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", baseDir(), root, work))
	u.mount(top, filepath.Join(root, top), "", unix.MS_BIND, "")
	u.mount(root, filepath.Join(root, root), "", unix.MS_BIND, "")
	u.mount("proc", filepath.Join(root, "proc"), "proc", 0, "")
}

func (u *unit) mount(source, target, kind string, flags uintptr, data string) {
	u.t.Helper()
	require.NoError(u.t, unix.Mount(source, target, kind, flags, data), "%s on %s", source, target)
	u.t.Cleanup(func() { require.NoError(u.t, unix.Unmount(target, unix.MNT_DETACH), target) })
}

// inside does something with the unit's root as "/". The thread that it runs on
// ends with it.
func (u *unit) inside(do func() error) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chroot(string(u.Root))
		}
		if err == nil {
			err = unix.Chdir("/")
		}
		if err == nil {
			err = do()
		}
		failed <- err
	}()
	return <-failed
}

// hook runs a hook that must exit 0.
func (u *unit) hook(name string) (r sandbox.Result) {
	u.t.Helper()
	require.NoError(u.t, u.inside(func() (err error) {
		r, err = u.Hook(name)
		return err
	}))
	var logs strings.Builder
	for _, l := range r.Logs {
		fmt.Fprintf(&logs, "%s %s\n", l.Level, l.Message)
	}
	require.Zero(u.t, r.Code, "%s: %s\n%s", name, r.Output, &logs)
	return r
}

// run runs a program of the unit's own Debian.
func (u *unit) run(argv ...string) (string, error) {
	u.t.Helper()
	c := exec.Command("/usr/bin/env", argv...) // found there, not here
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: string(u.Root)}
	c.Dir = "/"
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	out, err := c.CombinedOutput()
	return string(out), err
}

// must is run for what must succeed.
func (u *unit) must(argv ...string) string {
	u.t.Helper()
	out, err := u.run(argv...)
	require.NoError(u.t, err, "%v: %s", argv, out)
	return out
}

// status returns the last status without the warning about the GPUs, because no Pebble runs
// here. If causes do not fit, the answer of check-status follows.
func (u *unit) status() string {
	s := u.Model.Status()
	text, _, alone := strings.Cut(s.Message, "; GPUs not watched: ")
	if !alone && strings.HasSuffix(text, " check-status") {
		require.NoError(u.t, u.inside(func() error {
			r, err := u.Action("check-status", nil)
			text += fmt.Sprint("\n", r.Action.Message, r.Action.Results)
			return err
		}))
	}
	return s.Status + ": " + text
}

func (u *unit) put(path, text string) {
	u.t.Helper()
	require.NoError(u.t, u.Root.WriteFile(path, []byte(text), 0o644))
}

func (u *unit) remove(path string) {
	u.t.Helper()
	require.NoError(u.t, u.Root.Remove(path))
}

// package is what dpkg reports of a package: "ii 1.2.0", "" if it knows none.
func (u *unit) dpkg(name string) string {
	u.t.Helper()
	out, err := u.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Version}", name)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return ""
	}
	require.NoError(u.t, err)
	return strings.Join(strings.Fields(out), " ")
}
