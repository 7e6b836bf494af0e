// Package rungroup makes the control group of a run: a group of cgroup v2 that holds a
// process and all that it starts, and in which the kernel refuses given device nodes. The
// filter stays with the group when the program that made it ends.
//
// The package leases nothing, ends no process, and removes only its own empty groups.
package rungroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// prefix begins the name of each group. The name of the run follows, see IsRun.
const prefix = "gpukit-"

// IsRun reports whether a name is the name of a run, such as "run-4f1c0a2b91d3". Units of
// systemd have other names, so no group of theirs is mistaken for one of a run.
func IsRun(name string) bool {
	digits, ok := strings.CutPrefix(name, "run-")
	return ok && len(digits) == 12 && strings.Trim(digits, "0123456789abcdef") == ""
}

// slice holds the groups of processes that may not be moved below their own group.
const slice = "gpukit.slice"

// maxGroups bounds a walk through the control groups of a machine.
const maxGroups = 20000

// Tree holds the machine's groups of cgroup v2.
type Tree struct {
	Mount string // directory of the root group
	Proc  string // /proc, except in tests
}

// Find returns the groups of this machine. On a machine with cgroup v1 they are often at
// /sys/fs/cgroup/unified.
func Find() (Tree, error) {
	found, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.FSType != "cgroup2" || m.Root != "/", false
	})
	if err != nil {
		return Tree{}, fmt.Errorf("cannot read the mounts: %w", err)
	}
	for _, m := range found {
		if strings.HasPrefix(m.Mountpoint, "/sys/fs/cgroup") {
			return Tree{m.Mountpoint, "/proc"}, nil
		}
	}
	return Tree{}, errors.New("this machine has no cgroup v2 below /sys/fs/cgroup")
}

// Finder finds the groups of this machine, and looks again only after they were unmounted.
type Finder struct{ last atomic.Pointer[Tree] }

// Find returns the groups as the function Find.
func (f *Finder) Find() (Tree, error) {
	var st unix.Statfs_t
	if t := f.last.Load(); t != nil && unix.Statfs(t.Mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return *t, nil
	}
	t, err := Find()
	if err == nil {
		f.last.Store(&t)
	}
	return t, err
}

// Parents returns the directories in which the group of a process can be made, the best
// first. It is the process's own group, so that what ends the group of a runner also ends
// its jobs. A user who owns a group above could move the process out, so such a process gets
// a group that is only root's.
func (t Tree) Parents(pid int) ([]string, error) {
	own, err := t.groupOf(pid)
	if err != nil {
		return nil, err
	}
	parents := []string{filepath.Join(t.Mount, slice)}
	if t.onlyRoots(own) {
		parents = append([]string{filepath.Join(t.Mount, own)}, parents...)
	}
	return parents, nil
}

// gpusAttribute names the extended attribute of a group with its GPUs.
const gpusAttribute = "user.gpukit.gpus"

// SetGPUs stores the names of a run's GPUs with its group, which outlasts the service and the leases.
func SetGPUs(dir string, names []string) error {
	if err := unix.Setxattr(dir, gpusAttribute, []byte(strings.Join(names, " ")), 0); err != nil {
		return fmt.Errorf("cannot store the GPUs of %s: %w", dir, err)
	}
	return nil
}

// GPUs returns the names that SetGPUs stored, and none for a group without them.
func GPUs(dir string) []string {
	var names [64 << 10]byte
	n, err := unix.Getxattr(dir, gpusAttribute, names[:])
	if err != nil {
		return nil
	}
	return strings.Fields(string(names[:n]))
}

// groupOf returns the path of a process's group below the root group.
func (t Tree) groupOf(pid int) (string, error) {
	file := filepath.Join(t.Proc, strconv.Itoa(pid), "cgroup")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot find the control group of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/..") || filepath.Clean(path) != path {
				break // outside of this machine's view, or removed
			}
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot find the control group of process %d in %s", pid, file)
}

// RunOf returns the name of the run with a group that holds the process, and "" for none.
func (t Tree) RunOf(pid int) (string, error) {
	path, err := t.groupOf(pid)
	for element := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(element, prefix); ok && IsRun(name) {
			return name, err
		}
	}
	return "", err
}

// onlyRoots reports whether only root can move processes into the group and out of it.
func (t Tree) onlyRoots(path string) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		for _, file := range []string{"", "cgroup.procs"} {
			st, err := os.Stat(filepath.Join(t.Mount, dir, file))
			if err != nil {
				return false
			}
			owner, ok := st.Sys().(*syscall.Stat_t)
			if !ok || owner.Uid != 0 || st.Mode()&0o022 != 0 {
				return false
			}
		}
		if dir == "/" {
			return true
		}
	}
}

// Delegated returns the directory of the topmost group of a process that a user owns, such as the
// group of a unit with Delegate=, and "" for none. systemd removes it when the unit ends.
func (t Tree) Delegated(pid int) string {
	path, err := t.groupOf(pid)
	for dir := path; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if !t.onlyRoots(dir) && t.onlyRoots(filepath.Dir(dir)) {
			return filepath.Join(t.Mount, dir)
		}
	}
	return ""
}

// Make makes the empty group of a run in a directory of Parents, and returns its path.
func Make(parent, run string) (string, error) {
	if filepath.Base(parent) == slice {
		if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("cannot make control group: %w", err)
		}
	}
	dir := filepath.Join(parent, prefix+run)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot make control group: %w", err)
	}
	return dir, nil
}

// Remove removes a group of Make with the groups inside it, if none holds a process. A
// missing group is not an error.
func Remove(dir string) error {
	if !isGroup(dir) {
		return fmt.Errorf("cannot remove %s: it is not the group of a run", dir)
	}
	var inside []string
	_ = walk(dir, func(d string) error { // an unreadable group remains
		inside = append(inside, d)
		return nil
	})
	for i := len(inside) - 1; i >= 0; i-- {
		if err := os.Remove(inside[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove control group: %w", err)
		}
	}
	if parent := filepath.Dir(dir); filepath.Base(parent) == slice {
		_ = os.Remove(parent) // other runs may be in it
	}
	return nil
}

func isGroup(dir string) bool {
	name, ok := strings.CutPrefix(filepath.Base(dir), prefix)
	return ok && IsRun(name)
}

// All returns the groups of all runs on the machine.
func (t Tree) All() (dirs []string, err error) {
	err = walk(t.Mount, func(dir string) error {
		if isGroup(dir) {
			dirs = append(dirs, dir)
			return fs.SkipDir
		}
		return nil
	})
	return dirs, err
}

// walk visits a group and those inside it, each before its content.
func walk(dir string, visit func(dir string) error) error {
	left := maxGroups
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed during the walk
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		}
		if left--; left < 0 {
			return fmt.Errorf("there are more than %d control groups", maxGroups)
		}
		return visit(path)
	})
}
