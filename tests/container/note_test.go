//go:build e2e

package container

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/notice"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A teller is a unit that informs tasks of their GPU, which hangs.
type teller struct {
	t      *testing.T
	host   host.Host
	record quarantine.Record
	said   strings.Builder
}

const sickGPU = "0000:03:00.0"

func newTeller(t *testing.T) *teller {
	t.Helper()
	r := &teller{t: t, host: host.Host{Root: host.Root(t.TempDir()), Clock: hosttest.Clock{T: hosttest.Now}}}
	r.record = quarantine.Decide(r.record, quarantine.Look{At: hosttest.Now, Policy: quarantine.Auto, GPUs: []quarantine.Reading{{
		Slot: gpu.Slot{PCI: sickGPU, Index: 3}, Up: true, State: health.Critical, Faults: []health.Fault{{Kind: health.Hang, Signals: []string{"ring gfx timeout"}}}}}})
	return r
}

// look is one, so long after the GPU fell sick; the containers have it.
func (r *teller) look(after time.Duration, has ...*bed) {
	r.t.Helper()
	l := notice.Look{At: hosttest.Now.Add(after), Record: r.record, Users: map[string][]string{}}
	for _, b := range has {
		l.Users[sickGPU] = append(l.Users[sickGPU], b.id)
	}
	require.NoError(r.t, notice.Tasks{}.Notify(r.host, &r.said, l))
}

// told returns the line that the build gets.
func (r *teller) told() string {
	return "concourse-ci-machine: GPU 3: hangs or is in reset (ring gfx timeout), seen at " + hosttest.Now.UTC().Format("15:04:05 UTC")
}

// handled is a container with the kind of name that Concourse gives, which idles.
func handled(t *testing.T, s setting) *bed {
	t.Helper()
	debian, err := exec.LookPath("runc")
	require.NoError(t, err)
	b := s.bed(t, debian, 0o660)
	var random [6]byte
	_, err = rand.Read(random[:])
	require.NoError(t, err)
	b.id = fmt.Sprintf("0badcafe-0000-4000-8000-%x", random)
	b.init = "exec /bin/busybox sleep 600 </dev/null >/dev/null 2>&1\n"
	b.bundle()
	require.NoError(t, b.up())
	return b
}

// execWith runs a script in the container as a task, with these files; its process id.
func (b *bed) execWith(script string, in, out *os.File, more ...string) int {
	b.t.Helper()
	p := process(0, script)
	if len(more) > 0 {
		p["terminal"] = true
	}
	b.write("process", p)
	c := exec.Command(b.real, append(append([]string{"--root", b.path("root/concourse"), "--log", b.path("exec.log"), "exec", "--process", b.path("process"), "--detach", "--pid-file", b.path("exec.pid")}, more...), b.id)...)
	if in != nil {
		c.Stdin = in
	}
	if out != nil {
		c.Stdout, c.Stderr = out, out
	}
	// This program is the task's parent, as a shim is, and holds the other ends.
	require.NoError(b.t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	err := c.Run()
	require.NoError(b.t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
	log, _ := os.ReadFile(b.path("exec.log"))
	require.NoError(b.t, err, string(log))
	data, err := os.ReadFile(b.path("exec.pid"))
	require.NoError(b.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { b.ends(pid) })
	return pid
}

// ends kills a task, and takes it in, which the container's end waits for.
func (b *bed) ends(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL)
	_, _ = syscall.Wait4(pid, nil, 0, nil) // it may be taken in already
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	return r, w
}

// awaits reads until a line with the text.
func awaits(t *testing.T, from io.Reader, text string) {
	t.Helper()
	for s := bufio.NewScanner(from); ; {
		require.True(t, s.Scan(), "no line has %q: %v", text, s.Err())
		if strings.Contains(s.Text(), text) {
			return
		}
	}
}

const ready = "echo ready; "

func TestTaskGetsItsNoticeInItsPipeOnce(t *testing.T) {
	onEachCgroup(t, func(t *testing.T, _ string) {
		for _, s := range settings[:3] {
			t.Run(s.name, func(t *testing.T) {
				told, idle, other := handled(t, s), handled(t, s), handled(t, s)
				r, w := pipe(t)
				task := told.execWith(ready+"exec /bin/busybox sleep 600", nil, w)
				awaits(t, r, "ready")
				otherR, otherW := pipe(t)
				beside := other.execWith(ready+"exec /bin/busybox sleep 600", nil, otherW)
				awaits(t, otherR, "ready")

				unit := newTeller(t)
				for i := range 3 {
					unit.look(time.Duration(i)*15*time.Second, told, idle)
				}
				_, err := w.WriteString("the end\n")
				require.NoError(t, err)
				require.NoError(t, w.Close())
				told.ends(task)
				rest, err := io.ReadAll(r)
				require.NoError(t, err)
				require.Equal(t, "\n"+unit.told()+". Quarantined. What ran on it may be lost or wrong: run the build again\nthe end\n", string(rest))
				other.ends(beside)
				require.NoError(t, otherW.Close())
				rest, err = io.ReadAll(otherR)
				require.NoError(t, err)
				require.Empty(t, rest, "it does not have the GPU")
				require.Equal(t, 1, strings.Count(unit.said.String(), "\n"), unit.said.String())
			})
		}
	})
}

// Concourse's tasks have a terminal.
func TestTaskGetsItsNoticeOnItsTerminal(t *testing.T) {
	for _, s := range settings[:3] {
		t.Run(s.name, func(t *testing.T) {
			b := handled(t, s)
			master := b.terminal(ready + "exec /bin/busybox sleep 600")
			awaits(t, master, "ready")
			unit := newTeller(t)
			unit.look(0, b)
			awaits(t, master, unit.told())
			require.Contains(t, unit.said.String(), "gets the notice")
		})
	}
}

// terminal runs a script in the container on a terminal, and returns the master.
func (b *bed) terminal(script string) *os.File {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(b.t, err)
	defer l.Close()
	b.execWith(script, nil, nil, "--console-socket", path)
	c, err := l.AcceptUnix()
	require.NoError(b.t, err)
	defer c.Close()
	room, rights := make([]byte, 100), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(room, rights)
	require.NoError(b.t, err)
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	require.NoError(b.t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(b.t, err)
	master := os.NewFile(uintptr(fds[0]), "master")
	b.t.Cleanup(func() { master.Close() })
	return master
}

// A task that writes faster than is read waits for its reader. The unit with the notice does not.
func TestFullPipeGetsItsNoticeLater(t *testing.T) {
	b := handled(t, settings[1])
	r, w := pipe(t)
	b.execWith("exec /bin/busybox sleep 600", nil, w)
	fd := int(w.Fd())
	require.NoError(t, unix.SetNonblock(fd, true))
	for _, size := range []int{4096, 1} {
		for {
			if _, err := unix.Write(fd, make([]byte, size)); err != nil {
				require.ErrorIs(t, err, unix.EAGAIN)
				break
			}
		}
	}
	unit := newTeller(t)
	unit.look(0, b)
	unit.look(15*time.Second, b)
	require.Empty(t, unit.said.String())
	_, err := io.ReadFull(r, make([]byte, 8192))
	require.NoError(t, err)
	unit.look(30*time.Second, b)
	awaits(t, r, unit.told())
	require.Equal(t, 1, strings.Count(unit.said.String(), "gets the notice"))
}

// A task may put anything in the place of its output. Nothing of that is written to.
func TestWhatIsNotConcoursesIsNotWrittenTo(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	near, far := os.NewFile(uintptr(sockets[0]), "near"), os.NewFile(uintptr(sockets[1]), "far")
	defer near.Close()
	defer far.Close()
	ownR, ownW, err := os.Pipe()
	require.NoError(t, err)
	noneR, noneW, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, noneR.Close())
	for name, c := range map[string]struct {
		script   string
		in, outs *os.File
	}{
		"a file":                       {"exec >/tmp/out 2>&1", nil, null},
		"nothing":                      {"exec >&- 2>&-", nil, null},
		"a device":                     {"", nil, null},
		"a socket":                     {"", nil, far},
		"a pipe with a name":           {"busybox mkfifo /tmp/f; exec 3<>/tmp/f >&3 2>&1", nil, null},
		"a pipe that it reads itself":  {"", ownR, ownW},
		"a pipe that nobody reads":     {"", nil, noneW},
		"a terminal of its own making": {"busybox script -q -c 'echo >/tmp/on; exec busybox sleep 600' /dev/null", nil, null},
	} {
		t.Run(name, func(t *testing.T) {
			b := handled(t, settings[1])
			b.execWith(c.script+"\n: >/tmp/ready; exec busybox sleep 600", c.in, c.outs)
			if c.in != nil {
				require.NoError(t, c.in.Close())
				require.NoError(t, c.outs.Close())
			}
			there := func() bool {
				for _, f := range []string{"ready", "on"} {
					if _, err := os.Stat(b.path("bundle/rootfs/tmp/" + f)); err == nil {
						return true
					}
				}
				return false
			}
			require.Eventually(t, there, time.Minute, 10*time.Millisecond)
			unit := newTeller(t)
			unit.look(0, b)
			unit.look(15*time.Second, b)
			require.Equal(t, "cannot write a notice to container "+b.id+": its output is neither a terminal nor a pipe that Concourse reads\n", unit.said.String())
		})
	}
}

func TestTaskGetsItsNoticeOnStderrIfItsOutputIsAFile(t *testing.T) {
	b := handled(t, settings[1])
	r, w := pipe(t)
	b.execWith("exec >/tmp/out; echo ready >&2; exec busybox sleep 600", nil, w)
	awaits(t, r, "ready")
	unit := newTeller(t)
	unit.look(0, b)
	awaits(t, r, unit.told())
}

func TestMissingTaskIsNotAnError(t *testing.T) {
	b := handled(t, settings[0])
	unit := newTeller(t)
	unit.look(0, b)
	require.Empty(t, unit.said.String(), "no task yet")
	r, w := pipe(t)
	task := b.execWith(ready+"exec busybox sleep 600", nil, w)
	awaits(t, r, "ready")
	gone := handled(t, settings[0])
	gone.delete()
	unit.look(15*time.Second, b, gone)
	awaits(t, r, unit.told())
	b.ends(task)
	b.delete()
	unit.look(time.Hour, b, gone)
	require.NotContains(t, unit.said.String(), "cannot")
}
