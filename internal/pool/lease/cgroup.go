package lease

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxGroups bounds the walk through the cgroups that a privileged task can make below its
// own.
const maxGroups = 10000

func (l Leases) proc() string {
	if l.Proc != "" {
		return l.Proc
	}
	return "/proc"
}

func (l Leases) boot() (string, error) {
	path := l.proc() + "/sys/kernel/random/boot_id"
	text, err := readAll(path)
	if err == nil && strings.TrimSpace(text) == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", path, err)
	}
	return strings.TrimSpace(text), nil
}

// containerGroups reads /proc/PID/cgroup. It reports whether the process is in the
// container with this cgroup name, and returns the directories where the container's cgroup
// may be visible, the best first:
//   - the hierarchy that controls devices, because its rules do not apply to processes outside of it
//   - pids, which runc uses if devices cannot be delegated
//   - cgroup v2, with a path that has no controllers in front
func (l Leases) containerGroups(text, name string) (dirs []string, within bool) {
	root := l.Cgroup
	root = cmp.Or(root, "/sys/fs/cgroup")
	var devices, pids, unified []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		path, ok := cutAt(path, name)
		if !ok {
			continue
		}
		within = true
		if strings.HasPrefix(path, "/..") { // outside of this machine's view
			continue
		}
		list := strings.Split(controllers, ",")
		switch {
		case controllers == "":
			unified = append(unified, root+path, root+"/unified"+path)
		case slices.Contains(list, "devices"):
			devices = append(devices, root+"/"+controllers+path, root+"/devices"+path)
		case slices.Contains(list, "pids"):
			pids = append(pids, root+"/"+controllers+path, root+"/pids"+path)
		}
	}
	return slices.Concat(devices, pids, unified), within
}

// cutAt cuts a path after its first element that contains the name as a whole word, because
// init may have been moved to a cgroup below.
func cutAt(path, name string) (string, bool) {
	for at := 0; ; {
		i := strings.Index(path[at:], name)
		if i < 0 || name == "" {
			return "", false
		}
		from := at + i
		to := from + len(name)
		if (from == 0 || !isWordByte(path[from-1])) && (to == len(path) || !isWordByte(path[to])) {
			if end := strings.IndexByte(path[to:], '/'); end >= 0 {
				return path[:to+end], true
			}
			return path, true
		}
		at = from + 1
	}
}

func isWordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
}

// hasOthers reports whether a process other than init is in the first existing one of these
// cgroups, or below it. A result of false proves nothing.
func (l Leases) hasOthers(dirs []string, init int) bool {
	for _, dir := range dirs {
		w := walk{init: strconv.Itoa(init)}
		if err := w.visit(dir); !vanished(err) {
			return w.others
		}
	}
	return false
}

// walk searches a cgroup and all below it for processes.
type walk struct {
	init   string
	others bool
	groups int
}

func (w *walk) visit(dir string) error {
	if w.groups++; w.groups > maxGroups {
		return fmt.Errorf("there are more than %d cgroups", maxGroups)
	}
	// A process stays here until its parent has waited for it or its last thread has ended.
	text, err := readAll(dir + "/cgroup.procs")
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(text) {
		if pid != w.init { // 0 is a process of another pid namespace
			w.others = true
			return nil
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		err := w.visit(dir + "/" + e.Name())
		// The processes of a threaded cgroup are listed in a cgroup above it.
		if err != nil && !vanished(err) && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
		if w.others {
			return nil
		}
	}
	return nil
}
