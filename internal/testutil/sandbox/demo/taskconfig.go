package demo

// taskProcess is a process of the task's container.
func taskProcess(uid int, args ...string) map[string]any {
	caps := []string{}
	if uid == 0 {
		caps = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SETGID", "CAP_SETUID", "CAP_KILL"}
	}
	return map[string]any{
		"user": map[string]any{"uid": uid, "gid": uid}, "cwd": "/", "env": []string{"PATH=/"}, "args": args,
		"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
	}
}

// taskConfig has what tells a task's container in Concourse: the mount below
// /tmp/build, the user namespace and its mapping, the one device rule.
func taskConfig(volume string) map[string]any {
	type object = map[string]any
	mount := func(destination, kind, source string, options ...string) object {
		return object{"destination": destination, "type": kind, "source": source, "options": options}
	}
	namespaces := []object{}
	for _, n := range []string{"pid", "ipc", "uts", "mount", "network", "user"} {
		namespaces = append(namespaces, object{"type": n})
	}
	ids := []object{
		{"containerID": 0, "hostID": 4294967294, "size": 1},
		{"containerID": 1, "hostID": 1, "size": 4294967293},
	}
	return object{
		"ociVersion": "1.0.2", "hostname": "task", "root": object{"path": "rootfs"},
		"process": taskProcess(0, "/init"),
		"mounts": []object{
			mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
			mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
			mount("/tmp/build/0badcafe", "bind", volume, "bind", "rw"),
		},
		"linux": object{
			"namespaces": namespaces, "uidMappings": ids, "gidMappings": ids, "cgroupsPath": "/" + taskID,
			"resources": object{"devices": []object{
				{"allow": false, "access": "rwm"},
				{"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rwm"},
			}},
		},
	}
}
