//go:build e2e

package container

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
)

// bundle makes a bundle with a busybox and a config.json of Concourse's shape.
func (b *bed) bundle() {
	root := b.path("bundle/rootfs")
	for _, d := range []string{"bin", "proc", "sys", "dev", "events", "tmp/build/0badcafe", "tmp/build/get", "scratch"} {
		require.NoError(b.t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	require.NoError(b.t, os.MkdirAll(b.path("volume"), 0o755))
	data, err := os.ReadFile(b.busybox())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(root, "bin/busybox"), data, 0o755))
	if b.init != "" {
		require.NoError(b.t, os.WriteFile(filepath.Join(root, "tmp/gdn-init"), []byte("#!/bin/busybox sh\n"+b.init), 0o755))
	}
	b.write("bundle/config.json", b.config())
	owner := b.offset
	if len(b.maps) > 0 {
		owner += int(b.maps[0].HostID)
	}
	b.chown(b.path("bundle"), b.offset)
	b.chown(root, owner)
	b.chown(b.path("volume"), owner)
	require.NoError(b.t, os.Chown(b.dir, b.offset, b.offset))
}

func (b *bed) chown(root string, id int) {
	require.NoError(b.t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id, id)
	}))
}

func (b *bed) config() map[string]any {
	mount := func(destination, kind, source string, options ...string) any {
		return map[string]any{"destination": destination, "type": kind, "source": source, "options": options}
	}
	namespaces := []any{}
	for _, n := range []string{"pid", "ipc", "uts", "mount", "network"} {
		namespaces = append(namespaces, map[string]any{"type": n})
	}
	linux := map[string]any{
		"resources": map[string]any{"devices": []any{
			map[string]any{"allow": false, "access": "rwm"},
			map[string]any{"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rwm"},
		}},
	}
	if len(b.put) > 0 {
		linux["devices"] = b.put
	}
	if b.offset == 0 { // a nested machine has no cgroups of its own here
		linux["cgroupsPath"] = "/" + dirOfTests + b.id
	}
	if len(b.maps) > 0 {
		namespaces = append(namespaces, map[string]any{"type": "user"})
		linux["uidMappings"], linux["gidMappings"] = b.maps, b.maps
	}
	linux["namespaces"] = namespaces
	first := process(b.uid, probe+"exec /bin/busybox sleep 600 </dev/null >/dev/null 2>&1")
	if b.init != "" {
		first["args"] = []string{"/tmp/gdn-init"}
	}
	first["env"] = append([]string{"PATH=/bin"}, b.env...)
	hooks := map[string]any{}
	if b.hook != "" {
		hooks["createRuntime"] = []any{map[string]any{"path": b.hook}}
	}
	return map[string]any{
		"ociVersion": "1.0.2", "hostname": "task", "root": map[string]any{"path": "rootfs"},
		"annotations": map[string]any{"user": "root"}, "hooks": hooks,
		"process": first,
		"linux":   linux,
		"mounts": append([]any{
			mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
			mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
			mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
			mount(b.mountOf(), "bind", b.path("volume"), "bind", "rw"),
		}, b.mounts...),
	}
}
