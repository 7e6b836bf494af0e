package lease

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxGroups bounds the walk through the cgroups that a privileged task can make
// below its own.
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

// groupsOf reads /proc/PID/cgroup. It tells whether the process is in the
// container whose cgroup has this name, and the directories at which the
// container's cgroup may be seen, the best first: that of the hierarchy by which
// devices are allowed, as who is not in it is not held by its rules; then pids,
// which runc has where devices can't be delegated; then cgroup v2, whose path
// has no controllers in front.
func (l Leases) groupsOf(text, name string) (dirs []string, within bool) {
	root := l.Cgroup
	if root == "" {
		root = "/sys/fs/cgroup"
	}
	var devices, pids, unified []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		path, ok := cutAt(path, name)
		if !ok {
			continue
		}
		within = true
		if strings.HasPrefix(path, "/..") { // outside of what this machine sees
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

// cutAt cuts a path after its first element that has the name, as a whole word:
// init itself may have been moved to a cgroup below.
func cutAt(path, name string) (string, bool) {
	for at := 0; ; {
		i := strings.Index(path[at:], name)
		if i < 0 || name == "" {
			return "", false
		}
		from := at + i
		to := from + len(name)
		if (from == 0 || !wordy(path[from-1])) && (to == len(path) || !wordy(path[to])) {
			if end := strings.IndexByte(path[to:], '/'); end >= 0 {
				return path[:to+end], true
			}
			return path, true
		}
		at = from + 1
	}
}

func wordy(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
}

// others tells whether some process other than init is seen in the first of these
// cgroups that is there, or below it. That none is says nothing.
func (l Leases) others(dirs []string, init int) bool {
	for _, dir := range dirs {
		w := walk{init: strconv.Itoa(init)}
		if err := w.visit(dir); !gone(err) {
			return w.others
		}
	}
	return false
}

// walk looks for processes in a cgroup and all below.
type walk struct {
	init   string
	others bool
	groups int
}

func (w *walk) visit(dir string) error {
	if w.groups++; w.groups > maxGroups {
		return fmt.Errorf("there are more than %d cgroups", maxGroups)
	}
	// Every process is in here until it was waited for or its last thread ended.
	text, err := readAll(dir + "/cgroup.procs")
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(text) {
		if pid != w.init { // 0 is one of another pid namespace
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
		// A threaded cgroup has its processes in the list of one above it.
		if err != nil && !gone(err) && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
		if w.others {
			return nil
		}
	}
	return nil
}
