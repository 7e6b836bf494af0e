package main

import "fmt"

// taskSpec is a task's config.json of the size that Concourse makes, 13 KB with
// its indentation: most of it is the list of system calls that seccomp allows.
func taskSpec(env string) map[string]any {
	var calls []string
	for i := range 430 {
		calls = append(calls, fmt.Sprintf("call_%d", i))
	}
	caps := []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
	var mounts []any
	for _, d := range []string{"/proc", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/sys", "/sys/fs/cgroup", "/tmp/gdn-init", "/scratch",
		"/tmp/build/0badcafe", "/tmp/build/0badcafe/source", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} {
		mounts = append(mounts, map[string]any{"destination": d, "type": "bind", "source": "/var/lib/volumes/0123456789abcdef/volume", "options": []string{"bind", "rw"}})
	}
	maps := []any{map[string]any{"containerID": 0, "hostID": 4294967294, "size": 1}, map[string]any{"containerID": 1, "hostID": 1, "size": 4294967293}}
	var namespaces []any
	for _, n := range []string{"pid", "ipc", "uts", "mount", "network", "user", "cgroup"} {
		namespaces = append(namespaces, map[string]any{"type": n})
	}
	return map[string]any{
		"ociVersion": "1.3.0", "hostname": "task", "root": map[string]any{"path": "/var/lib/volumes/root/rootfs"}, "mounts": mounts,
		"process": map[string]any{
			"user": map[string]any{"uid": 0, "gid": 0}, "args": []string{"/tmp/gdn-init"}, "cwd": "/", "env": []string{"BUILD_ID=3", env},
			"capabilities": map[string]any{"bounding": caps, "effective": caps, "inheritable": caps, "permitted": caps},
		},
		"annotations": map[string]any{"user": "root"}, "hooks": map[string]any{},
		"linux": map[string]any{
			"uidMappings": maps, "gidMappings": maps, "namespaces": namespaces, "cgroupsPath": "garden/task",
			"resources": map[string]any{"devices": []any{map[string]any{"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rwm"}}},
			"seccomp":   map[string]any{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []any{map[string]any{"names": calls, "action": "SCMP_ACT_ALLOW"}}},
		},
	}
}
