package oci

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
)

// facts are what the wrapper has to know of a container's config.json.
type facts struct {
	ofEngine
	task    bool // it has a Concourse task's work folder, see isTask
	userNS  bool // it gets a user namespace of its own
	gidMaps []idMap
	uidMaps []idMap
	env     []string // of its first process
	mounts  []place  // that it has already
}

// place is where a mount is, its path cleaned, and what is mounted there.
type place struct{ destination, source string }

// idMap is one row of linux.uidMappings or gidMappings. 64 bits, so that sums can't overflow.
type idMap struct{ containerID, hostID, size uint64 }

func readFacts(root rawjson.Value) (f facts, err error) {
	if root.Kind() != rawjson.Object {
		return f, fmt.Errorf("it is %s, not an object", root.Kind())
	}
	mounts, err := root.Of("mounts", rawjson.Array)
	if err != nil {
		return f, err
	}
	f.mounts = make([]place, 0, mounts.Len())
	for m := range mounts.Elements() {
		destination, source, err := readMount(m)
		if err != nil {
			return f, err
		}
		f.mounts = append(f.mounts, place{destination, source})
		f.task = f.task || isTask(destination)
	}
	process, err := root.Of("process", rawjson.Object)
	if err != nil {
		return f, err
	}
	if f.env, err = process.Strings("env"); err != nil {
		return f, err
	}
	if err := f.readEngine(root, process); err != nil {
		return f, err
	}
	linux, err := root.Of("linux", rawjson.Object)
	if err != nil {
		return f, err
	}
	namespaces, err := linux.Of("namespaces", rawjson.Array)
	if err != nil {
		return f, err
	}
	for n := range namespaces.Elements() {
		kind, err := n.StringOf("type")
		if err != nil {
			return f, err
		}
		f.userNS = f.userNS || kind == "user"
	}
	if f.uidMaps, err = readMaps(linux, "uidMappings"); err == nil {
		f.gidMaps, err = readMaps(linux, "gidMappings")
	}
	return f, err
}

func readMount(m rawjson.Value) (destination, source string, err error) {
	if destination, err = m.StringOf("destination"); err != nil {
		return "", "", err
	}
	source, err = m.StringOf("source")
	return filepath.Clean(destination), source, err
}

func readMaps(linux rawjson.Value, key string) (maps []idMap, err error) {
	rows, err := linux.Of(key, rawjson.Array)
	if err != nil {
		return nil, err
	}
	for row := range rows.Elements() {
		var m idMap
		for _, field := range []struct {
			key string
			to  *uint64
		}{{"containerID", &m.containerID}, {"hostID", &m.hostID}, {"size", &m.size}} {
			if *field.to, err = row.NumberOf(field.key, 1<<32-1); err != nil {
				return nil, err
			}
		}
		maps = append(maps, m)
	}
	return maps, nil
}

// isTask tells whether a mount's destination is that of a Concourse task's
// work folder: at or under /tmp/build/<8 hex digits>. Gets have /tmp/build/get,
// puts /tmp/build/put, checks nothing there; nothing else in config.json tells
// a task from them (Concourse, atc/exec and worker/runtime).
func isTask(destination string) bool {
	rest, ok := strings.CutPrefix(destination, "/tmp/build/")
	if !ok {
		return false
	}
	dir, _, _ := strings.Cut(rest, "/")
	return len(dir) == 8 && strings.Trim(dir, "0123456789abcdef") == ""
}

// mountAt returns what the container has at a path: the last one counts.
func (f facts) mountAt(path string) (source string, there bool) {
	for i := len(f.mounts) - 1; i >= 0; i-- {
		if f.mounts[i].destination == path {
			return f.mounts[i].source, true
		}
	}
	return "", false
}

// containerGID returns the number that a group of the host has inside.
func (f facts) containerGID(gid uint32) (uint32, bool) {
	if !f.userNS {
		return gid, true
	}
	for _, m := range f.gidMaps {
		if g := uint64(gid); g >= m.hostID && g-m.hostID < m.size {
			return uint32(m.containerID + g - m.hostID), true
		}
	}
	return 0, false
}

// like is the same for containers of one step that is run again, and mostly another for
// other steps: it is made of the names in the environment, which are those of the image
// and of the step's params, and of where volumes are mounted, as Concourse names these
// by the step and its inputs. No value is in it, as params can be secrets. "" is not
// known. Whoever writes a pipeline can have any: it decides nothing that would hurt others.
func like(root rawjson.Value) string {
	process, err := root.Of("process", rawjson.Object)
	if err != nil {
		return ""
	}
	env, err := process.Strings("env")
	if err != nil {
		return ""
	}
	mounts, err := root.Of("mounts", rawjson.Array)
	if err != nil {
		return ""
	}
	h := fnv.New64a()
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		_, _ = h.Write([]byte(name + "\n")) // it never fails
	}
	for m := range mounts.Elements() {
		if m.Kind() != rawjson.Object {
			return ""
		}
		destination, err := m.StringOf("destination")
		if err != nil {
			return ""
		}
		_, _ = h.Write([]byte(destination + "\n"))
	}
	return strconv.FormatUint(h.Sum64(), 16)
}
