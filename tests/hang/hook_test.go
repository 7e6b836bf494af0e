//go:build e2e

package hang

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// unit is one on a machine with first GPU that may hang. Its hooks are processes that have
// the machine's folder as their root, so that they take its files for real ones.
type unit struct {
	*machine
	*sandbox.World
}

func newUnit(t *testing.T, gpus int) *unit {
	suite.Need(t, missing())
	w, err := sandbox.New(sandbox.Options{Host: string(hosttest.ManyGPUs(t, gpus)), Charm: filepath.Join(built, "charm"),
		Exe: filepath.Join(built, "bin", "sandbox"), Unit: "concourse-ci-machine/0"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	for _, dir := range []string{w.Dir, built} {
		place := w.Root.Path(dir)
		require.NoError(t, os.MkdirAll(place, 0o755))
		require.NoError(t, unix.Mount(dir, place, "", unix.MS_BIND, ""))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(place, unix.MNT_DETACH)) })
	}
	u := &unit{machineAt(t, w.Root, gpus), w}
	u.copyShell()
	w.Start = func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: string(w.Root)}
		c.Env = slices.DeleteFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "CHARM_ROOT=") })
	}
	w.Model.Resources = map[string]string{"concourse-release": filepath.Join(built, "concourse.tgz")}
	for name, value := range map[string]any{"mode": "worker", "compute-runtime": "rocm", "amd-container-toolkit": "skip", "rocm-base-url": "http://127.0.0.1:9"} {
		require.NoError(t, w.Model.SetConfig(name, value))
	}
	private, _ := hosttest.Key("worker")
	require.NoError(t, w.Root.WriteFile("/var/lib/concourse-worker/keys/worker_key", []byte(private), 0o600))
	return u
}

// copyShell puts a shell into the machine: the stand-in release is made of scripts.
func (u *unit) copyShell() {
	out, err := exec.Command("ldd", "/bin/sh").CombinedOutput()
	require.NoError(u, err, string(out))
	for _, file := range append(strings.Fields(string(out)), "/bin/sh") {
		if !filepath.IsAbs(file) {
			continue
		}
		data, err := os.ReadFile(file)
		require.NoError(u, err)
		hosttest.Put(u, u.root, file, string(data))
		require.NoError(u, os.Chmod(u.root.Path(file), 0o755))
	}
}

// ends runs a hook or an action, which must end with exit status 0.
func (u *unit) ends(name string, run func() (sandbox.Result, error)) (r sandbox.Result) {
	u.Helper()
	ended := make(chan error, 1)
	began := time.Now()
	go func() {
		var err error
		r, err = run()
		ended <- err
	}()
	select {
	case err := <-ended:
		u.Logf("%s: %s: %s", name, time.Since(began).Round(time.Millisecond), r.Status().Message)
		require.NoError(u, err, name)
		require.Zero(u, r.Code, "%s: %s", name, r.Output)
	case <-time.After(commandTime):
		u.sick.Hang(false) // or its process can't end
		<-ended
		require.Fail(u, "it does not end: "+name)
	}
	return r
}

func (u *unit) hook(name string) sandbox.Result {
	u.Helper()
	return u.ends(name, func() (sandbox.Result, error) { return u.Hook(name) })
}

// checks returns what the action check-status shows.
func (u *unit) checks() string {
	u.Helper()
	a := u.ends("check-status", func() (sandbox.Result, error) { return u.Action("check-status", nil) }).Action
	text, _ := a.Results["checks"].(string)
	return text
}

func (u *unit) relateWeb() {
	u.Helper()
	web := u.Model.Relate(7, "flight", "web")
	web.Units = map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "concourse-version": "8.2.5",
		"tsa-public-key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"}}
	u.ends("flight-relation-changed", func() (sandbox.Result, error) { return u.RelationHook(web, "changed", "web/0") })
}

// given returns the files that decide what tasks get.
func (u *unit) given() (all string) {
	for _, file := range []string{oci.DefaultConfig, "/etc/cdi/amd.json", "/var/lib/concourse-worker/worker-config.env"} {
		data, err := u.root.ReadFile(file)
		require.NoError(u, err)
		all += string(data)
	}
	return all
}

// restarts are the commands that start or stop a service.
func restarts(r sandbox.Result) []string {
	return slices.DeleteFunc(slices.Clone(r.Commands), func(line string) bool {
		return !strings.Contains(line, "start ") && !strings.Contains(line, "stop ") && !strings.Contains(line, "kill ")
	})
}

// A GPU that hangs on a unit that works holds up no hook, and changes nothing that tasks on
// the other GPU have.
func TestHooksEndAndChangeNothingWhileAGPUHangs(t *testing.T) {
	u := newUnit(t, 2)
	require.NotEmpty(t, restarts(u.hook("install")))
	u.relateWeb()
	u.hook("config-changed")
	u.startExporter()
	u.startOwner()
	before := u.given()
	for _, node := range []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129", "gpu-count=2"} {
		require.Contains(t, before, node)
	}
	require.Contains(t, u.hook("update-status").Status().Message, "(GPU: 2x AMD)")

	u.sick.Hang(true)
	u.eventually(func() bool { return strings.HasPrefix(u.states()[sickGPU], string(quarantine.Quarantined)) })
	for _, name := range []string{"update-status", "config-changed", "update-status"} {
		r := u.hook(name)
		require.Equal(t, "active", r.Status().Status, r.Status().Message)
		require.Contains(t, r.Status().Message, "(GPU: 2x AMD, 1 quarantined: hang)")
		require.Empty(t, r.Plan())
		require.Empty(t, restarts(r))
		require.True(t, u.Machine.Up("concourse-worker.service"))
		require.Equal(t, before, u.given())
	}
	require.Contains(t, u.checks(), sickGPU+"): has been quarantined since ")
	require.Contains(t, u.checks(), "hangs or is in reset (timeout)")
	list := u.dispatch("gpu", "list")
	require.Contains(t, list, "Found 2 AMD GPU devices")
	require.Contains(t, list, sickGPU)
	require.Zero(t, u.hung())

	// As after a reboot, when nothing is known of it.
	require.NoError(t, u.root.Remove("/run/concourse-ci-machine/gpu-attributes.json"))
	for range 2 {
		r := u.hook("update-status")
		require.Equal(t, "active", r.Status().Status, r.Status().Message)
		require.Contains(t, r.Status().Message, "(GPU: 1x AMD); 1 GPU missing: 0000:04")
		require.Contains(t, u.given(), `"cdi":"amd.com/gpu=GPU-9c31f07ad2480001"`)
		require.Equal(t, 1, strings.Count(u.given(), `"cdi":`))
	}
	require.Empty(t, u.hook("update-status").Plan())
}

// Nothing is known of a GPU that hangs before the charm is there.
func TestFirstHooksEndAndNameAGPUThatHangs(t *testing.T) {
	u := newUnit(t, 1)
	u.sick.Hang(true)
	const named = "AMD GPU " + sickGPU + " does not count: it hangs"
	require.Contains(t, u.hook("install").Status().Message, named)
	u.relateWeb()
	s := u.hook("update-status").Status()
	require.True(t, strings.HasPrefix(s.Message, named), s.Message)
	require.Contains(t, u.checks(), named)
	require.Eventually(t, func() bool { return u.hung() == 1 }, commandTime, 50*time.Millisecond)

	u.sick.Hang(false)
	began := time.Now() // it is back once init has taken in the process that hung
	for !strings.Contains(u.hook("update-status").Status().Message, "(GPU: 1x AMD)") {
		require.Less(t, time.Since(began), commandTime)
	}
	require.Zero(t, u.hung())
}
