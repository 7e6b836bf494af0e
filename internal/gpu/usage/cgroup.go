package usage

import (
	"path"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// place is where a process runs.
type place struct {
	container string   // "": in none that is known
	dirs      []string // machine paths where its control group may be; none: not known
}

const (
	maxContainer = 64
	hexID        = 64 // of Docker, Podman, containerd and CRI-O
	shortID      = 12 // as their own tools show it
)

// placeOf finds the outermost container in the text of /proc/<pid>/cgroup, but
// for those that the exporter is in itself: own. What a task of a build starts in
// containers of its own is the task's.
func placeOf(text string, own []string) place {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		controllers, p, found := strings.Cut(rest, ":")
		if !ok || !found {
			continue
		}
		parts := strings.Split(p, "/")
		for i := range parts {
			if id := containerID(parts, i); id != "" && !slices.Contains(own, id) {
				return place{id, groupDirs(controllers, parts[:i+1])}
			}
		}
	}
	return place{}
}

// containersOf are all that the text names, outermost first.
func containersOf(text string) []string {
	var all []string
	for {
		p := placeOf(text, all)
		if p.container == "" {
			return all
		}
		all = append(all, p.container)
	}
}

// containerID is the container whose control group the i-th part of a path is.
// Concourse's containers are garden/<handle>, and privileged ones <handle> alone,
// where the handle is a UUID (OciCgroupsPath in worker/runtime/spec); LXC's are
// lxc.payload.<name>; those of the others have 64 hex digits, bare or as
// docker-<id>.scope.
func containerID(parts []string, i int) string {
	part := strings.TrimSuffix(parts[i], ".scope")
	name, lxc := strings.CutPrefix(part, "lxc.payload.")
	switch {
	case part == "":
		return ""
	case lxc:
	case i > 0 && (parts[i-1] == "garden" || parts[i-1] == "lxc"):
		name = part
	case isUUID(part):
		name = part
	default:
		name = part[strings.LastIndexByte(part, '-')+1:]
		if len(name) != hexID || !isHex(name) {
			return ""
		}
		name = name[:shortID]
	}
	return name[:min(len(name), maxContainer)]
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isUUID(s string) bool {
	return len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
		isHex(strings.ReplaceAll(s, "-", "")) &&
		strings.Count(s, "-") == 4
}

// groupDirs are where the control group is mounted: in cgroup v2 at one place,
// in v1 below a folder for each controller.
func groupDirs(controllers string, parts []string) []string {
	if slices.Contains(parts, "..") { // of another namespace: not mounted here
		return nil
	}
	const root = "/sys/fs/cgroup"
	group := path.Join(parts...)
	if controllers == "" {
		return []string{path.Join(root, group), path.Join(root, "unified", group)}
	}
	return []string{path.Join(root, strings.TrimPrefix(controllers, "name="), group)}
}

// gone reports whether the container's control group is no longer there.
func (p place) gone(root host.Root) bool {
	for _, d := range p.dirs {
		if root.Exists(d) {
			return false
		}
	}
	return true
}
