package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/oci"
)

// bench is a directory with the programs, one bundle, and a config for each
// number of GPUs.
type bench struct {
	dir, runtimeKind, nodeKind string
	spec                       []byte // config.json as Concourse makes it
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func setUp(dir string) (*bench, error) {
	b := &bench{dir: dir, runtimeKind: "busybox true", nodeKind: "0660"}
	for name, pkg := range map[string]string{
		"runc-amd-wrapper": "src/runc-amd-wrapper", "floor": "tests/bench/wrapper/floor", "noop": "tests/bench/wrapper/noop",
	} {
		c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", b.path(name), "concourse-ci-machine/"+pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		b.runtimeKind, busybox = "a Go program that does nothing", b.path("noop")
	}
	if err := os.Symlink(busybox, b.path("true")); err != nil {
		return nil, err
	}
	if err := os.Mkdir(b.path("bundle"), 0o755); err != nil {
		return nil, err
	}
	if b.spec, err = json.Marshal(taskSpec()); err != nil {
		return nil, err
	}
	if err := b.makeNodes(); err != nil {
		return nil, err
	}
	for _, gpus := range []int{2, 8} {
		if err := b.configure(gpus); err != nil {
			return nil, err
		}
	}
	return b, b.mark()
}

// makeNodes makes stand-ins for kfd and 8 GPUs where it can; no one opens them.
func (b *bench) makeNodes() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(b.dir, &fs); err != nil {
		return err
	}
	if os.Geteuid() != 0 || fs.Flags&unix.ST_NODEV != 0 {
		b.nodeKind = "/dev/null, 0666"
		return nil
	}
	for i := range 17 {
		if err := unix.Mknod(b.path(fmt.Sprintf("node%d", i)), unix.S_IFCHR|0o660, int(unix.Mkdev(226, uint32(i)))); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) node(path string, i int) map[string]any {
	host := b.path(fmt.Sprintf("node%d", i))
	if b.nodeKind != "0660" {
		host = "/dev/null"
	}
	return map[string]any{"path": path, "hostPath": host, "type": "c", "permissions": "rw"}
}

func (b *bench) configure(gpus int) error {
	edits := func(nodes ...map[string]any) map[string]any { return map[string]any{"deviceNodes": nodes} }
	var all []map[string]any
	for g := range gpus {
		all = append(all, b.node(fmt.Sprintf("/dev/dri/card%d", g), 1+2*g), b.node(fmt.Sprintf("/dev/dri/renderD%d", 128+g), 2+2*g))
	}
	devices := []any{map[string]any{"name": "all", "containerEdits": edits(all...)}}
	for g := range gpus {
		for _, name := range []string{fmt.Sprint(g), fmt.Sprintf("GPU-%016x", g+1)} {
			devices = append(devices, map[string]any{"name": name, "containerEdits": edits(all[2*g : 2*g+2]...)})
		}
	}
	spec := b.path(fmt.Sprintf("amd%d.json", gpus))
	if err := writeJSON(spec, map[string]any{
		"cdiVersion": "0.5.0", "kind": "amd.com/gpu", "containerEdits": edits(b.node("/dev/kfd", 0)), "devices": devices,
	}); err != nil {
		return err
	}
	return writeJSON(b.path(fmt.Sprintf("wrapper%d.json", gpus)), oci.Config{
		Runtime: b.path("true"), Specs: []string{spec}, Devices: []string{"amd.com/gpu=all"}, State: b.path("state"), Nodes: b.path("nodes"),
	})
}

// mark makes the container "marked" one whose exec calls get a group.
func (b *bench) mark() error {
	if err := os.Mkdir(b.path("state"), 0o700); err != nil {
		return err
	}
	if err := writeJSON(b.path("state/marked"), map[string]any{"bundle": b.path("bundle"), "groups": []int{992}}); err != nil {
		return err
	}
	return writeJSON(b.path("process"), taskSpec()["process"])
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// taskSpec is a task's config.json of the size that Concourse makes: most of
// it is the list of system calls that seccomp allows.
func taskSpec() map[string]any {
	var calls []string
	for i := range 420 {
		calls = append(calls, fmt.Sprintf("system_call_%d", i))
	}
	caps := []string{"CAP_CHOWN", "CAP_KILL", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_CHROOT"}
	var mounts []any
	for _, d := range []string{"/proc", "/dev", "/dev/pts", "/dev/shm", "/sys", "/tmp/gdn-init", "/scratch", "/tmp/build/0badcafe", "/srv/a", "/srv/b", "/etc/hosts"} {
		mounts = append(mounts, map[string]any{"destination": d, "type": "bind", "source": "/var/lib/volumes/0123456789abcdef/volume", "options": []string{"bind", "rw"}})
	}
	maps := []any{map[string]any{"containerID": 0, "hostID": 4294967294, "size": 1}, map[string]any{"containerID": 1, "hostID": 1, "size": 4294967293}}
	var namespaces []any
	for _, n := range []string{"pid", "ipc", "uts", "mount", "network", "user"} {
		namespaces = append(namespaces, map[string]any{"type": n})
	}
	return map[string]any{
		"ociVersion": "1.3.0", "hostname": "task", "root": map[string]any{"path": "/var/lib/volumes/root/rootfs"}, "mounts": mounts,
		"process": map[string]any{
			"user": map[string]any{"uid": 0, "gid": 0}, "args": []string{"/tmp/gdn-init"}, "cwd": "/", "env": []string{"BUILD_ID=3"},
			"capabilities": map[string]any{"bounding": caps, "effective": caps, "inheritable": caps, "permitted": caps},
		},
		"linux": map[string]any{
			"uidMappings": maps, "gidMappings": maps, "namespaces": namespaces, "cgroupsPath": "garden/task",
			"resources": map[string]any{"devices": []any{map[string]any{"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rwm"}}},
			"seccomp":   map[string]any{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []any{map[string]any{"names": calls, "action": "SCMP_ACT_ALLOW"}}},
		},
	}
}
