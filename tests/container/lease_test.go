//go:build e2e

package container

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// A unit gives its GPUs to one container at a time. Each of its containers is a
// bed, with the same folder of leases.
type unit struct {
	t      *testing.T
	dir    string
	gpus   int
	events *os.File // what tasks report of themselves, in their order
	lines  *bufio.Reader
	asker  *bed // see refusal
}

func newUnit(t *testing.T, gpus int) *unit {
	t.Helper()
	need(t)
	if numbers, err := suite.Minors(); err != nil || len(numbers) < gpus+1 {
		why := fmt.Sprintf("/proc/misc has too few devices to stand in for %d GPUs", gpus)
		if os.Getenv("E2E") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	dir, err := os.MkdirTemp(os.Getenv(insideEnv), "unit-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	u := &unit{t: t, dir: dir, gpus: gpus}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "events"), 0o755))
	u.events = u.fifo("all")
	u.lines = bufio.NewReader(u.events)
	return u
}

// nothing is a real runc that does nothing and ends.
func (u *unit) nothing() string {
	path, err := exec.LookPath("true")
	require.NoError(u.t, err)
	return path
}

// fifo makes a named pipe that tasks can open, too, and opens it. Who reads from
// it waits for what others write, and no longer than a minute.
func (u *unit) fifo(name string) *os.File {
	path := filepath.Join(u.dir, "events", name)
	require.NoError(u.t, syscall.Mkfifo(path, 0o666))
	require.NoError(u.t, os.Chmod(path, 0o666))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(u.t, err)
	require.NoError(u.t, f.SetReadDeadline(time.Now().Add(time.Minute)))
	u.t.Cleanup(func() { f.Close() })
	return f
}

// event is the next line that a task or a program of the test wrote.
func (u *unit) event() []string {
	u.t.Helper()
	line, err := u.lines.ReadString('\n')
	require.NoError(u.t, err, "nothing happens any more: %q", line)
	return strings.Fields(line)
}

// container is one with a task that runs by exec, as Concourse has it.
func (u *unit) container(s setting, env ...string) *bed {
	u.t.Helper()
	debian, err := exec.LookPath("runc")
	require.NoError(u.t, err)
	b := s.bed(u.t, debian, 0o660)
	b.env, b.init = env, "exec /bin/busybox sleep 600 </dev/null >/dev/null 2>&1\n"
	b.mounts = []any{map[string]any{"destination": "/events", "type": "bind", "source": filepath.Join(u.dir, "events"), "options": []string{"bind", "rw"}}}
	u.lend(b)
	return b
}

// lend configures a bed as one of the unit's.
func (u *unit) lend(b *bed) {
	s := spec(u.t)
	numbers, err := suite.Minors()
	require.NoError(u.t, err)
	var devices []any
	var leased []oci.GPU
	for i := range u.gpus {
		path := fmt.Sprintf("/dev/dri/renderD%d", 128+i)
		edits := map[string]any{"deviceNodes": []any{map[string]any{"path": path, "type": "c", "major": 10, "minor": numbers[path]}}}
		name := fmt.Sprintf("GPU-%d", i)
		devices = append(devices, map[string]any{"name": strconv.Itoa(i), "containerEdits": edits}, map[string]any{"name": name, "containerEdits": edits})
		leased = append(leased, oci.GPU{Name: name, CDI: "amd.com/gpu=" + name, Nodes: []string{path}})
	}
	s["devices"] = devices
	b.write("amd.json", s)
	b.configure(oci.Config{GPUs: leased, Visible: []string{"AMD_VISIBLE_DEVICES"}, Leases: &oci.Leases{Dir: filepath.Join(u.dir, "leases")}})
}

func (u *unit) leases() lease.Leases {
	l := lease.Leases{Dir: filepath.Join(u.dir, "leases")}
	for i := range u.gpus {
		l.GPUs = append(l.GPUs, fmt.Sprintf("GPU-%d", i))
	}
	return l
}

// refusal returns the refusal that a task gets now; "" if there is a GPU for it. The container that
// asks never comes to be.
func (u *unit) refusal() string {
	u.t.Helper()
	if u.asker == nil {
		u.asker = u.container(settings[0])
		u.asker.bundle()
		u.asker.use(u.nothing())
	}
	u.asker.write("bundle/config.json", u.asker.config()) // without what an ask before has added
	var out bytes.Buffer
	err := u.asker.runc(&out, "create", "--bundle", u.asker.path("bundle"), "--pid-file", u.asker.path("init.pid"), u.asker.id)
	if err == nil {
		require.Empty(u.t, out.String())
		return ""
	}
	var exit *exec.ExitError
	require.True(u.t, errors.As(err, &exit) && exit.ExitCode() == 1, "%v: %s", err, out.String())
	require.Contains(u.t, out.String(), "runc-amd-wrapper: cannot lease 1 GPU: ")
	return out.String()
}

// isFree waits until the only GPU is: the kernel ends a killed process in its
// own time. It fails after some seconds, long before a lease could time out.
func (u *unit) isFree() {
	u.t.Helper()
	last := ""
	require.Eventually(u.t, func() bool { last = u.refusal(); return last == "" }, 20*time.Second, 5*time.Millisecond, "%s", &last)
}

func (u *unit) isHeldBy(b *bed) {
	u.t.Helper()
	require.Contains(u.t, u.refusal(), " is held by the task of container "+b.id+" since ")
}

func (b *bed) createWords() []string {
	return []string{"create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), "--no-new-keyring", b.id}
}

// up makes the container run, with nothing in it but its init.
func (b *bed) up() error {
	out, err := os.Create(b.path("out"))
	if err != nil {
		return err
	}
	defer out.Close()
	for _, words := range [][]string{b.createWords(), {"start", b.id}} {
		if err := b.runc(out, words...); err != nil {
			said, _ := os.ReadFile(b.path("out"))
			return fmt.Errorf("%s %s: %w: %s", words[0], b.id, err, said)
		}
	}
	return nil
}

// task is a program that opens all GPUs it can, reports it, waits for a word to go on,
// reports that it ends, and ends.
const task = `held=; fd=3
for d in /dev/dri/*; do
  if ( { : <>$d; } 2>/dev/null ); then eval "exec $fd<>$d"; fd=$((fd + 1)); held="$held ${d#/dev/dri/renderD}"; fi
done
echo "+ $TASK$held" > /events/all
read word < /events/$TASK
echo "- $TASK" > /events/all
`

// run execs the script in the container as a task.
func (b *bed) run(script string) error {
	p := process(b.uid, script)
	p["env"] = append([]string{"PATH=/bin", "TASK=" + b.id}, b.env...)
	b.write("process", p)
	return b.runExec()
}

func (b *bed) runExec() error {
	out, err := os.Create(b.path("out"))
	if err != nil {
		return err
	}
	defer out.Close()
	if err := b.runc(out, "exec", "--process", b.path("process"), "--detach", "--pid-file", b.path("exec.pid"), b.id); err != nil {
		said, _ := os.ReadFile(b.path("out"))
		return fmt.Errorf("exec %s: %w: %s", b.id, err, said)
	}
	return nil
}

func (b *bed) kill9(pidFile string) {
	b.t.Helper()
	data, err := os.ReadFile(b.path(pidFile))
	require.NoError(b.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	require.NoError(b.t, err)
	require.NoError(b.t, syscall.Kill(pid, syscall.SIGKILL))
}
