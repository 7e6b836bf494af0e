package oci

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// errBecameRunc is what the fake execve panics with; the real one does not return.
var errBecameRunc = errors.New("became runc")

// testbed is a wrapper on a machine with made-up device nodes, so that no test needs root.
// Files and directories are real, in a directory of the test.
type testbed struct {
	wrapper
	dir   string
	nodes map[string]unix.Stat_t
	argv  []string // what the real runc would have got
	made  []string // device nodes made
	asked []string // directories that were probed
	dead  map[string]string
}

// gpuA and gpuB are the GPUs of testdata/amd.json.
var (
	gpuA = GPU{Name: "GPU-1a2b", CDI: "amd.com/gpu=GPU-1a2b", Nodes: []string{"/dev/dri/renderD128", "/dev/dri/card0"}}
	gpuB = GPU{Name: "GPU-3c4d", CDI: "amd.com/gpu=GPU-3c4d", Nodes: []string{"/dev/dri/renderD129", "/dev/dri/card1"}}
)

// called returns the GPU under other names.
func (g GPU) called(name, cdi string) GPU {
	return GPU{Name: name, CDI: "amd.com/gpu=" + cdi, Nodes: g.Nodes}
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	b := &testbed{dir: t.TempDir(), nodes: map[string]unix.Stat_t{}}
	require.NoError(t, os.Chmod(b.dir, 0o700)) // whatever the umask: the config is in it
	m := realMachine()
	m.sleep = func(time.Duration) {} // what is waited for does not come here
	m.now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	m.lstat = func(path string, st *unix.Stat_t) error {
		if n, ok := b.nodes[path]; ok {
			*st = n
			return nil
		}
		if strings.HasPrefix(path, "/dev/") {
			return unix.ENOENT
		}
		return unix.Lstat(path, st)
	}
	m.mknod = func(path string, mode uint32, dev int) error {
		b.made = append(b.made, path)
		final := strings.TrimSuffix(path, fmt.Sprintf(".%d", os.Getpid()))
		b.nodes[final] = unix.Stat_t{Mode: unix.S_IFCHR | 0o666, Rdev: uint64(dev), Uid: m.euid}
		return os.WriteFile(path, nil, 0o600)
	}
	m.probe = func(path string, _ time.Duration) string { b.asked = append(b.asked, path); return b.dead[path] }
	m.exec = func(_ string, argv, _ []string) error { b.argv = argv; panic(errBecameRunc) } // nothing follows an execve
	b.wrapper = newWrapper(m, []string{concourseName}, []string{EnvConfig + "=" + b.path("wrapper.json"), "PATH=/bin"})
	b.put(t, "runc", "#!/bin/sh\n")
	spec, err := os.ReadFile("testdata/amd.json")
	require.NoError(t, err)
	b.put(t, "amd.json", string(spec))
	b.configure(t, func(*Config) {})
	for _, n := range []struct {
		path         string
		major, minor uint32
	}{{"/dev/kfd", 235, 0}, {"/dev/dri/card0", 226, 0}, {"/dev/dri/renderD128", 226, 128}, {"/dev/dri/card1",
		226, 1}, {"/dev/dri/renderD129", 226, 129}} {
		b.node(n.path, 0o660, 992, unix.Mkdev(n.major, n.minor))
	}
	return b
}

func (b *testbed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *testbed) put(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	require.NoError(t, os.WriteFile(b.path(name), []byte(content), 0o600))
}

func (b *testbed) node(path string, mode, gid uint32, dev uint64) {
	b.nodes[path] = unix.Stat_t{Mode: unix.S_IFCHR | mode, Gid: gid, Rdev: dev}
}

// refuseMknod makes the machine one in an LXD container.
func (b *testbed) refuseMknod() {
	b.mknod = func(string, uint32, int) error { return unix.EPERM }
}

func (b *testbed) configure(t *testing.T, change func(*Config)) {
	t.Helper()
	c := Config{
		Runtime: b.path("runc"), Specs: []string{b.path("amd.json")}, GPUs: []GPU{gpuA}, State: b.path("state"), Nodes: b.path("nodes"),
	}
	change(&c)
	data, err := json.Marshal(c)
	require.NoError(t, err)
	b.put(t, "wrapper.json", string(data))
}

// bundle makes a bundle from a file of testdata, changed by the given functions.
func (b *testbed) bundle(t *testing.T, name string, change ...func(map[string]any)) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	if len(change) > 0 {
		var spec map[string]any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber() // 2^64-1 must stay that
		require.NoError(t, d.Decode(&spec))
		for _, c := range change {
			c(spec)
		}
		data, err = json.Marshal(spec)
		require.NoError(t, err)
	}
	b.put(t, "bundle/config.json", string(data))
	return b.path("bundle")
}

// privileged takes the user namespace out, as Concourse does for `privileged: true`.
func privileged(spec map[string]any) {
	linux := spec["linux"].(map[string]any)
	delete(linux, "uidMappings")
	delete(linux, "gidMappings")
	linux["namespaces"] = []any{map[string]any{"type": "pid"}, map[string]any{"type": "mount"}}
}

// call runs the wrapper and returns why it refused, nil if it became runc.
func (b *testbed) call(args ...string) (err error) {
	b.argv = nil
	defer func() {
		if r := recover(); r == errBecameRunc {
			err = nil
		} else if r != nil {
			panic(r)
		}
	}()
	c, err := cmdline.Parse(args)
	c.Root = cmp.Or(c.Root, "/run/containerd/runc/concourse")
	if err == nil {
		err = b.forward(&c, append([]string{"runc"}, args...))
	}
	return err
}

func (b *testbed) create() error { return b.call("create", "--bundle", b.path("bundle"), "c1") }

// result is the part of an edited config.json that tests look at.
type result struct {
	Mounts  []edits.Mount
	Process struct {
		User struct{ AdditionalGids []uint32 }
		Env  []string
	}
	Linux struct {
		Devices   []edits.Device
		Resources struct{ Devices []edits.Rule }
	}
}

func (b *testbed) result(t *testing.T) (r result) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(b.text(t)), &r))
	return r
}

func (b *testbed) text(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(b.path("bundle/config.json"))
	require.NoError(t, err)
	return string(data)
}

func file(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
