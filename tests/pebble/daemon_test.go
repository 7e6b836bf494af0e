//go:build e2e

package pebble

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// daemon is a Pebble that runs as its unit reports.
type daemon struct {
	*unit
	t    *testing.T
	cmd  *exec.Cmd
	log  *hosttest.Buffer
	done chan struct{} // closed at its end
}

// start does what systemd would with the unit: its command in its environment and with its
// rights, and more of that if the test replaces systemd's socket.
func (u *unit) start(t *testing.T, more ...string) *daemon {
	t.Helper()
	file, err := u.ReadFile(unitPath)
	require.NoError(t, err)
	env, argv, rights := more, []string(nil), []string{"setpriv", "--inh-caps=-all"}
	for line := range strings.Lines(string(file)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "Environment":
			env = append(env, value)
		case "ExecStart":
			argv = strings.Fields(value)
		case "CapabilityBoundingSet":
			rights = append(rights, "--bounding-set=-all,+"+strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(value, "CAP_", "")), " ", ",+"))
		case "NoNewPrivileges":
			rights = append(rights, "--no-new-privs")
		}
	}
	require.NotEmpty(t, argv)
	require.Len(t, rights, 4, "the unit limits the rights of what it starts")
	argv = append(rights, argv...)
	d := &daemon{unit: u, t: t, cmd: exec.Command(argv[0], argv[1:]...), log: &hosttest.Buffer{}, done: make(chan struct{})}
	d.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, d.cmd.Start())
	go func() {
		d.cmd.Wait() // the tests ask for the state
		close(d.done)
	}()
	t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-d.done
		for _, pid := range d.all() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Log(d.log)
		}
	})
	return d
}

// ask runs Pebble's own program and returns what it reports.
func (d *daemon) ask(args ...string) string {
	d.t.Helper()
	cmd := exec.Command(d.Path(role.BinDir+"/pebble"), args...)
	cmd.Env = []string{"PEBBLE=" + d.Path(role.PebbleDir), "HOME=" + d.Path("/")}
	out, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "pebble %v: %s", args, out)
	return string(out)
}

// state is Pebble's word for the service: active, backoff, inactive.
func (d *daemon) state() string {
	d.t.Helper()
	for line := range strings.Lines(d.ask("services")) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == service {
			return f[2]
		}
	}
	return ""
}

// check is the state of the service's check.
type check struct {
	Status              string
	Successes, Failures int
}

func (d *daemon) check() check {
	d.t.Helper()
	var all struct{ Checks map[string]check }
	require.NoError(d.t, json.Unmarshal([]byte(d.ask("checks", "--format=json")), &all))
	require.Contains(d.t, all.Checks, service)
	return all.Checks[service]
}

// pids are the unit's exporters: those that serve.
func (u *unit) pids() (pids []int) {
	for _, pid := range u.all() {
		if args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil && !bytes.Contains(args, []byte(helperFlag)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// helpers are those that look at processes for them, as root.
func (u *unit) helpers() []int {
	pids := u.pids()
	return slices.DeleteFunc(u.all(), func(pid int) bool { return slices.Contains(pids, pid) })
}

// all are the processes that run the exporter's program; one that has ended has
// no program any more.
func (u *unit) all() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if exe, err := os.Readlink("/proc/" + e.Name() + "/exe"); err == nil && exe == u.Path(program) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// serving waits for an exporter that answers /metrics, other than those that
// were there before, and returns its process.
func (d *daemon) serving(before ...int) (pid int) {
	d.t.Helper()
	eventually(d.t, func() bool {
		pids := d.pids()
		if len(pids) != 1 {
			return false
		}
		pid = pids[0]
		for _, b := range before {
			if pid == b {
				return false
			}
		}
		code, _ := d.get("/-/healthy")
		return code == 200
	}, "no exporter answers but %v", before)
	code, body := d.get("/metrics")
	require.Equal(d.t, 200, code, body)
	require.Contains(d.t, body, "rocm_gpu_temperature{")
	return pid
}

// waitEnd waits for Pebble's own end and returns how.
func (d *daemon) waitEnd() *os.ProcessState {
	<-d.done
	return d.cmd.ProcessState
}
