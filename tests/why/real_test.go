//go:build e2e

package why

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

func TestMain(m *testing.M) {
	missing := suite.Lacks("runc iproute2 iptables util-linux python3", "runc", "ip", "iptables", "nsenter", "python3")
	if os.Geteuid() != 0 {
		missing = "it needs root"
	}
	os.Exit(suite.Namespaced{Name: "verdicts", Missing: missing, Flags: unix.CLONE_NEWNET,
		Inside: func(m *testing.M, _ string) int {
			if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
				return 1
			}
			flag.Parse()
			if err := flag.Set("test.parallel", "16"); err != nil { // they wait, and compute little
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return m.Run()
		}}.Run(m))
}

// containers counts all containers of this process: each has its own handle, and so its own
// control group, network and addresses.
var containers atomic.Int32

// real is a worker of the kernel's own parts, with its own root for the rest.
type real struct {
	t     *testing.T
	root  host.Root
	rec   *recorder.Recorder
	mu    sync.Mutex
	exits map[string]int
}

// newReal returns a worker for a test that runs beside others.
func newReal(t *testing.T) *real {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
	w := &real{t: t, root: host.Root(t.TempDir()), exits: map[string]int{}}
	for _, dir := range []string{"/proc", "/sys"} {
		require.NoError(t, os.Symlink(dir, w.root.Path(dir)))
	}
	for _, dir := range []string{"/run", "/volumes", recorder.DefaultBundles} {
		require.NoError(t, os.MkdirAll(w.root.Path(dir), 0o755))
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		status, ok := w.exits[strings.Split(req.URL.Path, "/")[2]]
		if !ok {
			http.NotFound(rw, req)
			return
		}
		_ = json.NewEncoder(rw).Encode(map[string]string{"value": fmt.Sprint(status)})
	}))
	t.Cleanup(server.Close)
	var err error
	w.rec, err = recorder.New(recorder.Options{Root: w.root, Worker: server.URL, Volumes: "/volumes",
		Limits: taskrecord.Limits{Bytes: 64 << 20, Age: time.Hour, FailedAge: time.Hour},
		Every:  500 * time.Millisecond, GPUs: 100 * time.Millisecond, Log: t.Logf})
	require.NoError(t, err)
	return w
}

// container makes a container with real runc, with a task that is a command of a shell.
type container struct {
	*real
	handle, bundle string
	init, number   int
}

func (w *real) run(name string, args ...string) {
	w.t.Helper()
	// A file and no pipe: the first process of a container keeps it open.
	out, err := os.Create(filepath.Join(w.t.TempDir(), "out"))
	require.NoError(w.t, err)
	defer out.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	text, _ := os.ReadFile(out.Name())
	require.NoError(w.t, err, "%s %v: %s", name, args, text)
}

// create makes a container with its own limit of memory, 0 for none.
func (w *real) create(parent string, memory int64) *container {
	w.t.Helper()
	n := int(containers.Add(1))
	c := &container{real: w, number: n, handle: fmt.Sprintf("0badcafe-%04x-4000-8000-%012x", os.Getpid()&0xffff, n)}
	c.bundle = w.root.Path(filepath.Join(recorder.DefaultBundles, c.handle))
	rootfs := filepath.Join(w.t.TempDir(), "rootfs")
	mounts := []map[string]any{{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
		{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
		{"destination": "/tmp/build/1c633350", "type": "bind", "source": w.root.Path("/volumes"),
			"options": []string{"rbind", "rw"}}}
	for _, dir := range []string{"bin", "sbin", "usr", "lib", "lib64", "etc", "proc", "dev", "tmp"} {
		require.NoError(w.t, os.MkdirAll(filepath.Join(rootfs, dir), 0o755))
		if real, err := filepath.EvalSymlinks("/" + dir); err == nil && len(dir) > 2 && dir != "proc" && dir != "dev" && dir != "tmp" {
			mounts = append(mounts, map[string]any{"destination": "/" + dir, "type": "bind", "source": real,
				"options": []string{"rbind", "ro"}})
		}
	}
	if _, err := os.Stat("/etc/resolv.conf"); err == nil {
		resolver := filepath.Join(w.t.TempDir(), "resolv.conf")
		require.NoError(w.t, os.WriteFile(resolver, []byte("nameserver "+c.address(77)+"\n"), 0o644))
		mounts = append(mounts, map[string]any{"destination": "/etc/resolv.conf", "type": "bind", "source": resolver,
			"options": []string{"bind", "ro"}})
	}
	resources := map[string]any{}
	if memory > 0 {
		resources["memory"] = map[string]any{"limit": memory, "swap": memory}
	}
	spec := map[string]any{"ociVersion": "1.0.2", "hostname": "task", "root": map[string]any{"path": rootfs},
		"process": map[string]any{"cwd": "/", "user": map[string]int{"uid": 0, "gid": 0}, "env": []string{"PATH=/usr/bin:/bin"},
			"args": []string{"sleep", "600"}}, "mounts": mounts,
		"linux": map[string]any{"cgroupsPath": parent + "/" + c.handle, "resources": resources,
			"namespaces": []map[string]string{{"type": "pid"}, {"type": "mount"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}}}}
	dir := w.t.TempDir()
	data, err := json.Marshal(spec)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600))
	require.NoError(w.t, os.MkdirAll(c.bundle, 0o755))
	w.run("runc", "--root", w.root.Path("/run/runc"), "create", "--bundle", dir, "--pid-file", c.bundle+"/init.pid", c.handle)
	w.run("runc", "--root", w.root.Path("/run/runc"), "start", c.handle)
	text, err := os.ReadFile(c.bundle + "/init.pid")
	require.NoError(w.t, err)
	c.init, err = strconv.Atoi(string(text))
	require.NoError(w.t, err)
	require.NoError(w.t, w.rec.Look(w.t.Context())) // a container that is seen late and runs no task is an old one
	w.t.Cleanup(func() {
		_ = exec.Command("runc", "--root", w.root.Path("/run/runc"), "delete", "--force", c.handle).Run()
	})
	return c
}

// task runs a shell's command as the task. The recorder looks until it has ended.
func (c *container) task(script string) verdict.Verdict {
	c.t.Helper()
	cmd := exec.Command("runc", "--root", c.root.Path("/run/runc"), "exec", "--pid-file", c.bundle+"/task.pid", c.handle,
		"sh", "-c", script)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(c.t, cmd.Start())
	done := make(chan int, 1)
	go func() {
		var failed *exec.ExitError
		err := cmd.Wait()
		if errors.As(err, &failed) {
			done <- failed.ExitCode()
			return
		}
		done <- 0
	}()
	store := taskrecord.Store{Dir: c.root.Path(taskrecord.DefaultDir)}
	for limit := time.Now().Add(3 * time.Minute); !store.Ended(c.handle); {
		require.True(c.t, time.Now().Before(limit), "the record does not end")
		require.NoError(c.t, c.rec.Look(c.t.Context()))
		select {
		case status := <-done:
			c.mu.Lock()
			c.exits[c.handle] = status
			c.mu.Unlock()
			_ = os.Remove(c.bundle + "/task.pid") // as the shim does
		case <-time.After(100 * time.Millisecond):
		}
	}
	f, err := store.Find(c.handle)
	require.NoError(c.t, err)
	r, err := f.Read()
	require.NoError(c.t, err)
	v := verdict.Decide(&r)
	c.t.Logf("exit %v, output %q, verdict %+v, last %v", *r.End.Exit, out.String(), v, r.Machine[len(r.Machine)-1])
	return v
}

// is checks the verdict.
func is(t *testing.T, v verdict.Verdict, kind verdict.Kind, code string) {
	t.Helper()
	require.NotEmpty(t, v.Reasons)
	require.Equal(t, kind, v.Kind, "%+v", v)
	require.Equal(t, code, v.Reasons[0].Code, "%+v", v)
}

func TestRealPlainFailuresAreTheTask(t *testing.T) {
	t.Parallel()
	for script, code := range map[string]string{
		"sleep 2; exit 1": "exit-status", "exit 3": "exit-status", "sleep 1; kill -SEGV $$": "crash",
		"sleep 1; kill -ABRT $$": "crash", "python3 -c 'import ctypes; ctypes.string_at(0)'": "crash",
	} {
		t.Run(script, func(t *testing.T) { is(t, newReal(t).create("garden", 0).task(script), verdict.Task, code) })
	}
}

func TestRealOOM(t *testing.T) {
	t.Parallel()
	const grow = "python3 -c 'x=[]\nwhile True: x.append(bytearray(4<<20))'"
	t.Run("of the task", func(t *testing.T) {
		is(t, newReal(t).create("garden", 96<<20).task("sleep 2; ulimit -v 4000000; "+grow), verdict.Task, "oom-limit")
	})
	t.Run("by a neighbour", func(t *testing.T) {
		w := newReal(t)
		parent := w.limitedGroup(160 << 20)
		hog := w.create(parent, 0)
		w.run("runc", "--root", w.root.Path("/run/runc"), "exec", "--detach", hog.handle,
			"python3", "-c", "x=bytearray(100<<20); import time; time.sleep(300)")
		// The kernel prefers the task, although the neighbour is larger. Without the group's limit
		// its own one ends it.
		is(t, w.create(parent, 0).task("echo 1000 > /proc/self/oom_score_adj; sleep 4; ulimit -v 400000; "+grow),
			verdict.Neighbour, "oom-outside")
	})
}

// limitedGroup makes a control group with a limit of memory, and returns its path from the
// root of the groups: runc takes a path without a slash from its own group.
func (w *real) limitedGroup(bytes int64) string {
	w.t.Helper()
	path := fmt.Sprintf("/why-%d-%d", os.Getpid(), containers.Add(1))
	for dir, file := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		if _, err := os.Stat(dir + "/cgroup.procs"); err != nil {
			continue
		}
		require.NoError(w.t, os.Mkdir(dir+path, 0o755))
		w.t.Cleanup(func() { _ = os.Remove(dir + path) })
		require.NoError(w.t, os.WriteFile(filepath.Join(dir+path, file), []byte(fmt.Sprint(bytes)), 0o644))
		return path
	}
	w.t.Skip("the machine has no control group of memory")
	return ""
}

func TestRealCPUQuota(t *testing.T) {
	w := newReal(t)
	c := w.create("garden", 0)
	w.run("runc", "--root", w.root.Path("/run/runc"), "update", "--cpu-period", "100000", "--cpu-quota", "5000", c.handle)
	is(t, c.task("timeout 12 sh -c 'while :; do :; done'; kill -TERM $$"), verdict.Machine, "cpu-throttled")
}

// The records are on the disk of the volumes on most workers.
func TestRealFullDisk(t *testing.T) {
	t.Parallel()
	for name, together := range map[string]bool{"of the volumes": false, "of volumes and records": true} {
		t.Run(name, func(t *testing.T) {
			w := newReal(t)
			volumes, records := w.root.Path("/volumes"), w.root.Path(taskrecord.DefaultDir)
			require.NoError(t, unix.Mount("tmpfs", volumes, "tmpfs", 0, "size=64m"))
			t.Cleanup(func() { _ = unix.Unmount(volumes, unix.MNT_DETACH) })
			if together {
				require.NoError(t, os.MkdirAll(records, 0o700))
				require.NoError(t, os.Mkdir(volumes+"/records", 0o700))
				require.NoError(t, unix.Mount(volumes+"/records", records, "", unix.MS_BIND, ""))
				t.Cleanup(func() { _ = unix.Unmount(records, unix.MNT_DETACH) })
			}
			after := "3" // a reading has the full disk
			if together {
				after, w.rec.Every = "15", time.Millisecond // until the readings need more of the disk
			}
			c := w.create("garden", 0)
			is(t, c.task("sleep 1; dd if=/dev/zero of=/tmp/build/1c633350/x bs=1M; yes >/tmp/build/1c633350/y; "+
				"sleep "+after+"; exit 1"), verdict.Task, "disk-full")
		})
	}
}

// address returns an address in the network of the container: 1 is the machine's, 2 its own.
func (c *container) address(host int) string { return fmt.Sprintf("10.213.%d.%d", c.number, host) }

// wire connects the container's network with the machine's.
func (c *container) wire() {
	name := fmt.Sprintf("why%d", c.number)
	c.run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(c.init))
	c.t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	c.run("ip", "addr", "add", c.address(1)+"/24", "dev", name)
	c.run("ip", "link", "set", name, "up")
	in := []string{"-t", strconv.Itoa(c.init), "-n", "ip"}
	c.run("nsenter", append(in, "addr", "add", c.address(2)+"/24", "dev", "eth0")...)
	c.run("nsenter", append(in, "link", "set", "eth0", "up")...)
	c.run("nsenter", append(in, "route", "add", "default", "via", c.address(1))...)
}

// serve starts a server and waits until it listens.
func (w *real) serve(script string) {
	w.t.Helper()
	ready, write, err := os.Pipe()
	require.NoError(w.t, err)
	defer ready.Close()
	server := exec.Command("python3", "-c", "import socket,time,os\n"+script)
	server.ExtraFiles = []*os.File{write}
	require.NoError(w.t, server.Start())
	write.Close()
	w.t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	_, err = ready.Read(make([]byte, 1))
	require.NoError(w.t, err)
}

func TestRealNetwork(t *testing.T) {
	t.Parallel()
	asks := func(t *testing.T, host int) verdict.Verdict {
		c := newReal(t).create("garden", 0)
		c.wire()
		return c.task("python3 -c \"\nimport socket\nfor i in range(3):\n s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n" +
			" s.settimeout(4); s.connect(('" + c.address(host) + "',53)); s.send(b'x'*30)\n try: s.recv(9)\n except OSError: pass\n\"; exit 2")
	}
	t.Run("name server away", func(t *testing.T) { is(t, asks(t, 77), verdict.Machine, "dns-away") })
	t.Run("name server of its choice away", func(t *testing.T) { is(t, asks(t, 78), verdict.Task, "exit-status") })
	t.Run("registry away", func(t *testing.T) { // its queue is full, so it answers no request
		c := newReal(t).create("garden", 0)
		c.wire()
		c.serve("s=socket.socket(); s.bind(('" + c.address(1) + "',8097)); s.listen(0)\n" +
			"a=socket.create_connection(('" + c.address(1) + "',8097)); os.write(3,b'x'); time.sleep(300)")
		is(t, c.task("python3 -c \"\nimport socket\nfor i in range(3):\n try: socket.create_connection(('"+c.address(1)+"',8097),5)\n"+
			" except OSError: pass\n\"; exit 1"), verdict.Machine, "no-connection")
	})
	t.Run("lost packets", func(t *testing.T) {
		c := newReal(t).create("garden", 0)
		c.wire()
		c.serve("s=socket.create_server(('" + c.address(1) + "',8099)); os.write(3,b'x')\n" +
			"while True:\n c,_=s.accept()\n while c.recv(65536): pass")
		c.run("iptables", "-A", "INPUT", "-p", "tcp", "--dport", "8099", "!", "--syn", "-m", "statistic", "--mode", "random",
			"--probability", "0.3", "-j", "DROP")
		is(t, c.task("python3 -c \"\nimport socket,time\nend=time.time()+20\ns=socket.create_connection(('"+c.address(1)+"',8099),10)\n"+
			"while time.time()<end:\n s.send(b'x'*300); time.sleep(.05)\n\"; exit 1"), verdict.Machine, "packets-lost")
	})
	t.Run("slow registry", func(t *testing.T) {
		c := newReal(t).create("garden", 0)
		c.wire()
		c.serve("s=socket.create_server(('" + c.address(1) + "',8098)); os.write(3,b'x')\n" +
			"while True:\n c,_=s.accept()\n try:\n  while True: c.send(b'x'*800); time.sleep(.1)\n except OSError: pass")
		is(t, c.task("timeout -s TERM 35 python3 -c \"\nimport socket\ns=socket.create_connection(('"+c.address(1)+"',8098),10)\n"+
			"while s.recv(65536): pass\n\"; kill -TERM $$"), verdict.Machine, "download-slow")
	})
}

func TestRealTaskThatHangsIsStopped(t *testing.T) {
	is(t, newReal(t).create("garden", 0).task("timeout -s TERM 12 sleep 100; kill -TERM $$"), verdict.Task, "stopped-idle")
}
