package usage

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// kfdProcs has a folder for each process of the whole host that uses KFD, because sysfs
// ignores namespaces. The name is the process's number in the namespace of the host
// (kfd_create_process_sysfs).
const kfdProcs = "/sys/class/kfd/kfd/proc"

const (
	maxKFD   = 4096 // processes
	maxParts = 64   // contexts of a process
	sdmaTime = "kfd_sdma"
)

// kfdProcess describes a process and its GPUs of this machine.
type kfdProcess struct {
	number string
	parts  []string            // its folders: "", and "context_0" of each further context
	gpus   map[string]gpu.Slot // by KFD's number
	pasids map[string][]uint64 // by KFD's number; DRM's numbers of the same memory spaces
}

// listKFD reads the names, and the numbers that connect a process to its DRM clients:
// pasid, or pasid_<gpu> if each GPU has a separate one. 0 means none, as in the file pasid
// since KFD uses DRM's numbers.
func listKFD(root host.Root, ids map[string]gpu.Slot) []kfdProcess {
	if len(ids) == 0 {
		return nil
	}
	entries, err := root.ReadDir(kfdProcs)
	if err != nil {
		return nil
	}
	var out []kfdProcess
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 31); err != nil || len(out) == maxKFD {
			continue
		}
		files, err := root.ReadDir(path.Join(kfdProcs, e.Name()))
		if err != nil {
			continue // it has ended
		}
		p := kfdProcess{e.Name(), []string{""}, map[string]gpu.Slot{}, map[string][]uint64{}}
		for _, f := range files {
			n, ok := strings.CutPrefix(f.Name(), "context_")
			if _, is := parseID(n, 32); ok && is && len(p.parts) < maxParts {
				p.parts = append(p.parts, f.Name())
			}
		}
		for i, part := range p.parts {
			at := path.Join(kfdProcs, p.number, part)
			if i > 0 {
				files, _ = root.ReadDir(at) // none if the context has ended
			}
			p.add(root, at, files, ids)
		}
		if len(p.gpus) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// add records the GPUs of one folder, and its memory space on each.
func (p *kfdProcess) add(root host.Root, at string, files []os.DirEntry, ids map[string]gpu.Slot) {
	all, _ := parseID(readText(root, path.Join(at, "pasid")), 32)
	for _, f := range files {
		id, ok := strings.CutPrefix(f.Name(), "vram_")
		d, ours := ids[id]
		if !ok || !ours {
			continue
		}
		pasid := all
		if n, ok := parseID(readText(root, path.Join(at, "pasid_"+id)), 32); ok {
			pasid = n
		}
		p.gpus[id], p.pasids[id] = d, append(p.pasids[id], pasid)
	}
}

// ownerOf returns the owner of one of the process's memory spaces on a GPU.
func (p *kfdProcess) ownerOf(id string, spaces map[uint64]owner) (owner, bool) {
	for _, pasid := range p.pasids[id] {
		if o, ok := spaces[pasid]; ok && pasid != 0 {
			return o, true
		}
	}
	return owner{}, false
}

// initNamespace is the inode number of the first PID namespace
// (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const initNamespace = "pid:[4026531836]"

// hostNumbers reports whether the numbers in /proc are those of the host.
func hostNumbers(root host.Root) bool {
	ns, err := root.Readlink("/proc/1/ns/pid")
	return err == nil && ns == initNamespace
}

// owner holds the process here that matches a KFD process.
type owner struct {
	pid   int
	place place
}

// kfdOf holds one process's folder and its owner, for one device.
type kfdOf struct {
	number, id string
	parts      []string
	owner      owner
	drm        bool // the owner has a DRM client of the device
	outside    bool // it runs outside of this container
}

// join finds the processes that run on this machine: through a DRM client with the same
// memory space, which works in a container too, otherwise through their number, if numbers
// are the host's.
func (s *Scanner) join(procs []kfdProcess, clients map[gpu.Slot]map[uint64]owner, own []string,
	left *LeftOut) map[gpu.Slot][]kfdOf {
	numbers := hostNumbers(s.root)
	out := map[gpu.Slot][]kfdOf{}
	for _, p := range procs {
		var byNumber *owner
		if pid, err := strconv.Atoi(p.number); err == nil && numbers {
			if text, ok := s.cgroup(pid); ok {
				byNumber = &owner{pid, placeOf(text, own)}
			}
		}
		joined := false
		for id, d := range p.gpus {
			o, ok := p.ownerOf(id, clients[d])
			switch {
			case ok:
				out[d] = append(out[d], kfdOf{p.number, id, p.parts, o, true, false})
			case byNumber != nil:
				out[d] = append(out[d], kfdOf{p.number, id, p.parts, *byNumber, false, false})
			case !numbers:
				out[d] = append(out[d], kfdOf{p.number, id, p.parts, owner{}, false, true})
			}
			joined = joined || ok || byNumber != nil
		}
		if !joined && !numbers {
			left.Namespace++
		}
	}
	return out
}

// readKFD reads KFD's counts for the processes on one GPU, over all contexts of a process
// (context_N, since Linux 7.0; the folder itself is the first context's). vram_<gpu> is in
// bytes, sdma_<gpu> the time of copies in microseconds. stats_<gpu>/cu_occupancy is the
// number of busy compute units, on GPUs that report it.
func readKFD(root host.Root, all []kfdOf) []use {
	var out []use
	for _, k := range all {
		n, err := strconv.ParseUint(k.number, 10, 31)
		if err != nil {
			continue
		}
		u := use{client: clientKey{true, n}, place: k.owner.place, pid: k.owner.pid,
			memory: [numKinds]int64{-1, -1, -1, -1}, units: -1}
		u.memory[kindKFD] = k.sum(root, "vram_"+k.id)
		if u.outside = k.outside; k.outside {
			u.pid = int(n)
		}
		if v := k.sum(root, "sdma_"+k.id); v > 0 {
			u.engines = []engine{{sdmaTime, uint64(v) * 1000}}
		}
		u.units = k.sum(root, "stats_"+k.id+"/cu_occupancy")
		// A process has an entry on every GPU, even on unused ones.
		if k.drm || u.memory[kindKFD] > 0 || len(u.engines) > 0 {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b use) int { return a.pid - b.pid })
	return out
}

// sum adds up a number over all the process's contexts, -1 if none has it.
func (k *kfdOf) sum(root host.Root, name string) int64 {
	sum := int64(-1)
	for _, part := range k.parts {
		if v, ok := readNumber(root, path.Join(kfdProcs, k.number, part, name)); ok {
			sum = max(sum, 0) + v
		}
	}
	return sum
}

func readNumber(root host.Root, p string) (int64, bool) {
	v, err := strconv.ParseInt(readText(root, p), 10, 64)
	return v, err == nil && v >= 0 && v <= maxBytes
}
