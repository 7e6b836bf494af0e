package gpureset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

const (
	drmMajor = 226
	kfdDir   = "/sys/class/kfd/kfd"
)

// openBy returns the processes that have each GPU open: a descriptor or a mapping of its
// nodes, or memory or queues in KFD. It fails if it cannot read a process that lives.
func openBy(r host.Root, gpus []gpu.GPU) (map[string][]int, error) {
	open := map[string][]int{}
	processes, err := r.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		nodes, err := nodesOf(r, pid)
		if err != nil {
			return nil, fmt.Errorf("cannot read the files of process %d: %w", pid, err)
		}
		for _, g := range gpus {
			if hasNode(nodes, g) {
				open[g.Address()] = append(open[g.Address()], pid)
			}
		}
	}
	for _, g := range gpus {
		pids, err := kfdUsers(r, g)
		if err != nil {
			return nil, err
		}
		open[g.Address()] = append(open[g.Address()], pids...)
	}
	return open, nil
}

// nodesOf returns the DRM nodes that a process has open or mapped, by name (renderD128) or
// minor number (128), because a container can have them under any name. It reads each
// thread: a thread can have its own descriptors, and a leader that has ended has none. All
// threads have the same mappings.
func nodesOf(r host.Root, pid int) (map[string]bool, error) {
	nodes := map[string]bool{}
	dir := path.Join("/proc", strconv.Itoa(pid), "task")
	threads, err := r.ReadDir(dir)
	if err != nil && !vanished(err) {
		return nil, err
	}
	mapped := false
	for _, t := range threads {
		if err := addOpen(r, path.Join(dir, t.Name(), "fd"), nodes); err != nil {
			return nil, err
		}
		if mapped {
			continue
		}
		maps, err := r.ReadFile(path.Join(dir, t.Name(), "maps"))
		if err != nil && !vanished(err) {
			return nil, err
		}
		mapped = len(maps) > 0
		for line := range strings.Lines(string(maps)) {
			if _, file, found := strings.Cut(strings.TrimSuffix(line, "\n"), "/"); found {
				nodes[path.Base(strings.TrimSuffix(file, " (deleted)"))] = true
			}
		}
	}
	return nodes, nil
}

// addOpen adds the files that a thread has open.
func addOpen(r host.Root, dir string, nodes map[string]bool) error {
	files, err := r.ReadDir(dir)
	if err != nil && !vanished(err) {
		return err
	}
	for _, f := range files {
		name := path.Join(dir, f.Name())
		target, err := r.Readlink(name)
		if vanished(err) {
			continue
		}
		if err != nil {
			return err
		}
		nodes[path.Base(target)] = true
		var st unix.Stat_t
		if r.Real() && unix.Stat(r.Path(name), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR &&
			unix.Major(st.Rdev) == drmMajor {
			nodes[strconv.Itoa(int(unix.Minor(st.Rdev)))] = true
		}
	}
	return nil
}

func hasNode(nodes map[string]bool, g gpu.GPU) bool {
	for _, n := range []*host.Node{g.Card, &g.Render} {
		if n != nil && (nodes[path.Base(n.Path)] || nodes[strconv.Itoa(int(n.Minor))]) {
			return true
		}
	}
	return false
}

// kfdUsers returns the processes with data on the GPU in KFD (kfd_process.c, vram_<id>).
func kfdUsers(r host.Root, g gpu.GPU) (pids []int, err error) {
	if g.KFDNode < 0 {
		return nil, nil
	}
	id, err := r.ReadText(fmt.Sprintf("%s/topology/nodes/%d/gpu_id", kfdDir, g.KFDNode))
	if err != nil {
		return nil, err
	}
	processes, err := r.ReadDir(kfdDir + "/proc")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a driver without this folder
	}
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		if r.Exists(path.Join(kfdDir, "proc", p.Name(), "vram_"+strings.TrimSpace(id))) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// vanished reports whether a process or a file of it has ended.
func vanished(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
}
