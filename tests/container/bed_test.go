//go:build e2e

package container

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// A bed is one unit with one container: a wrapper's config, a CDI spec, a
// bundle, and the nodes of the host as the test wants them.
type bed struct {
	t      *testing.T
	dir    string
	real   string     // path of the real runc
	unit   oci.Config // the wrapper's, as configured last
	enter  []string   // words in front of each command: nsenter for a nested machine
	offset int        // what a nested machine's root is on this one
	id     string
	kind   string // the last mounts' folder: task, get or check
	maps   []idMap
	uid    int
	env    []string // of the first process, apart from PATH
	init   string   // a script that replaces Concourse's gdn-init; "": a probe is the first process
	mounts []any    // apart from the usual ones
	put    []any    // linux.devices, as an engine makes them
	hook   string   // a program that runc runs while it creates
	before map[string]syscall.Stat_t
}

type idMap struct {
	ContainerID uint32 `json:"containerID"`
	HostID      uint32 `json:"hostID"`
	Size        uint32 `json:"size"`
}

// concourse is the mapping that Concourse makes for an unprivileged container.
var concourse = []idMap{{0, 4294967294, 1}, {1, 1, 4294967293}}

func newBed(t *testing.T, nodeMode os.FileMode) *bed {
	t.Helper()
	need(t)
	dir, err := os.MkdirTemp(os.Getenv(insideEnv), "bed-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	debian, err := exec.LookPath("runc")
	require.NoError(t, err)
	b := &bed{t: t, dir: dir, real: debian, id: filepath.Base(dir), kind: "task", before: map[string]syscall.Stat_t{}}
	b.hostNodes(nodeMode, 0, 992)
	b.write("amd.json", spec(t))
	b.configure(oci.Config{GPUs: oneGPU})
	t.Cleanup(func() {
		b.hostNodesUnchanged()
		b.delete()
		require.NoError(t, os.RemoveAll(oci.DefaultNodes)) // a nested machine's root may own it
		require.NoError(t, os.RemoveAll(dir))
	})
	return b
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bed) write(name string, v any) {
	data, err := json.Marshal(v)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(b.path(name), data, 0o644))
	require.NoError(b.t, os.Chown(b.path(name), b.offset, b.offset))
}

// oneGPU is the first of spec.
var oneGPU = []oci.GPU{{Name: "0000:03:00.0", CDI: "amd.com/gpu=0", Nodes: []string{"/dev/dri/renderD128"}}}

func (b *bed) configure(c oci.Config) {
	c.Runtime, c.Specs, c.State = b.real, []string{b.path("amd.json")}, b.path("state")
	b.unit = c
	b.write("wrapper.json", c)
}

// use puts another real runc behind the wrapper.
func (b *bed) use(runc string) {
	b.real = runc
	b.configure(b.unit)
}

// spec names GPU 0 renderD128 and GPU 1 renderD129.
func spec(t *testing.T) map[string]any {
	nodes := map[string]any{}
	numbers, err := suite.Minors()
	require.NoError(t, err)
	for path, minor := range numbers {
		nodes[path] = map[string]any{"deviceNodes": []any{map[string]any{"path": path, "type": "c", "major": 10, "minor": minor}}}
	}
	return map[string]any{
		"cdiVersion": "0.5.0", "kind": "amd.com/gpu", "containerEdits": nodes["/dev/kfd"],
		"devices": []any{
			map[string]any{"name": "0", "containerEdits": nodes["/dev/dri/renderD128"]},
			map[string]any{"name": "1", "containerEdits": nodes["/dev/dri/renderD129"]},
		},
	}
}

func (b *bed) hostNodes(mode os.FileMode, uid, gid int) {
	numbers, err := suite.Minors()
	require.NoError(b.t, err)
	for path := range numbers {
		require.NoError(b.t, os.Chown(path, uid, gid))
		require.NoError(b.t, os.Chmod(path, mode))
		var st syscall.Stat_t
		require.NoError(b.t, syscall.Lstat(path, &st))
		b.before[path] = st
	}
}

// hostNodesUnchanged ends every test: the predecessor opened the host's nodes
// to all users, for ever, at each call of runc (D37).
func (b *bed) hostNodesUnchanged() {
	for path, was := range b.before {
		var st syscall.Stat_t
		require.NoError(b.t, syscall.Lstat(path, &st))
		require.Equal(b.t, [4]uint64{uint64(was.Mode), uint64(was.Uid), uint64(was.Gid), was.Ino},
			[4]uint64{uint64(st.Mode), uint64(st.Uid), uint64(st.Gid), st.Ino}, path)
	}
}

// wrapper is the path by which the container's engine calls the wrapper.
func (b *bed) wrapper() string {
	if b.unit.Containers == oci.Requested {
		return filepath.Join(os.Getenv(insideEnv), "runc-amd-wrapper")
	}
	return filepath.Join(os.Getenv(insideEnv), "runc")
}

// runc calls the wrapper as containerd's shim does, in the bundle.
func (b *bed) runc(out io.Writer, words ...string) error {
	argv := append(append([]string(nil), b.enter...), b.wrapper(),
		"--root", b.path("root/concourse"), "--log", b.path("bundle/log.json"), "--log-format", "json")
	c := exec.Command(argv[0], append(argv[1:], words...)...)
	c.Dir = b.path("bundle")
	c.Env = append(os.Environ(), oci.EnvConfig+"="+b.path("wrapper.json"))
	c.Stdout, c.Stderr = out, out
	return c.Run()
}

// output calls the wrapper with a pipe for the container's process and returns all that was
// written until the last holder of the pipe has ended.
func (b *bed) output(then func() error, words ...string) string {
	b.t.Helper()
	r, w, err := os.Pipe()
	require.NoError(b.t, err)
	defer r.Close()
	err = b.runc(w, words...)
	if err == nil && then != nil {
		err = then()
	}
	w.Close()
	out, readErr := io.ReadAll(r)
	require.NoError(b.t, readErr)
	log, _ := os.ReadFile(b.path("bundle/log.json"))
	require.NoError(b.t, err, "%s%s", out, log)
	return string(out)
}

// start creates and starts the container and returns what its init found.
func (b *bed) start() map[string]string {
	b.t.Helper()
	b.bundle()
	started := func() error { return b.runc(io.Discard, "start", b.id) }
	return found(b.output(started, "create", "--bundle", b.path("bundle"), "--pid-file", b.path("init.pid"), "--no-new-keyring", b.id))
}

// exec runs the probe in the container as Concourse runs a task.
func (b *bed) exec(uid int) map[string]string {
	b.t.Helper()
	p := process(uid, probe)
	b.write("process", p)
	return found(b.output(nil, "exec", "--process", b.path("process"), "--detach", "--pid-file", b.path("exec.pid"), b.id))
}

func (b *bed) delete() {
	if _, err := os.Stat(b.path("bundle")); err == nil {
		require.NoError(b.t, b.runc(os.Stderr, "delete", "--force", b.id))
	}
}

// probe opens each node for reading and writing. The shell would make a file if none
// exists.
const probe = `for d in kfd dri/renderD128 dri/renderD129; do
  if [ ! -e /dev/$d ]; then echo "$d: absent"; elif e=$( { exec 3<>/dev/$d; } 2>&1); then echo "$d: opens"; else echo "$d: ${e##*: }"; fi
done
`

func found(out string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(out) {
		if name, what, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			m[name] = what
		} else {
			m["?"] += line
		}
	}
	return m
}

func process(uid int, script string) map[string]any {
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_MKNOD", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_CHROOT", "CAP_KILL"}
	if uid != 0 {
		caps = nil
	}
	return map[string]any{
		"user": map[string]any{"uid": uid, "gid": uid}, "cwd": "/", "env": []string{"PATH=/bin"},
		"args":         []string{"/bin/busybox", "sh", "-c", script},
		"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps, "inheritable": caps},
		"rlimits":      []any{map[string]any{"type": "RLIMIT_FSIZE", "hard": uint64(1<<64 - 1), "soft": uint64(1<<64 - 1)}},
	}
}

func (b *bed) busybox() string {
	path, err := exec.LookPath("busybox")
	require.NoError(b.t, err)
	return path
}

func (b *bed) mountOf() string {
	return map[string]string{"task": "/tmp/build/0badcafe", "get": "/tmp/build/get", "check": "/scratch"}[b.kind]
}
