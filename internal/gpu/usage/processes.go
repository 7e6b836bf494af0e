package usage

import (
	"cmp"
	"path"
	"slices"
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Process holds the memory of one process on a GPU.
type Process struct {
	PID       int    `json:"pid"`                 // 0: several smaller ones together
	Name      string `json:"name"`                // as the kernel has it, at most 15 bytes
	Container string `json:"container,omitempty"` // "": no container
	// Screen reports that it draws screens: it has the GPU's card node open. Programs that
	// compute open the render node.
	Screen bool `json:"screen,omitempty"`
	// Host is set for a process outside of the container that this program runs in. PID is
	// then its number on the host. It can be one of this machine if the kernel does not
	// identify these, so its memory can be in the list twice.
	Host bool `json:"host,omitempty"`
	// Memory is in bytes; on an APU with the part that is in the machine's memory.
	Memory float64 `json:"memory_bytes"`
}

// maxProcesses bounds the processes of one GPU that are named.
const maxProcesses = 8

// processesOf returns the processes with memory of a GPU, the largest first. KFD's count of a
// process is part of the counts of its DRM clients, except in old kernels.
func processesOf(root host.Root, uses []use, integrated bool) (all []Process) {
	type sums struct {
		use
		drm, kfd int64
	}
	type process struct {
		pid  int
		host bool
	}
	sorted := slices.Clone(uses)
	slices.SortStableFunc(sorted, compareUses)
	byPID := map[process]*sums{}
	for _, u := range oncePerClient(sorted) {
		s := byPID[process{u.pid, u.outside}]
		if s == nil {
			s = &sums{use: u}
			byPID[process{u.pid, u.outside}] = s
		}
		s.drm, s.kfd, s.screen = s.drm+max(0, u.memory[kindVRAM]), s.kfd+max(0, u.memory[kindKFD]), s.screen || u.screen
		if integrated {
			s.drm += max(0, u.memory[kindGTT])
		}
	}
	for p, s := range byPID {
		if memory := max(s.drm, s.kfd); memory > 0 {
			all = append(all, Process{PID: p.pid, Container: s.place.container, Screen: s.screen, Host: p.host,
				Memory: float64(memory)})
		}
	}
	slices.SortFunc(all, func(a, b Process) int {
		return cmp.Or(cmp.Compare(b.Memory, a.Memory), cmp.Compare(a.PID, b.PID))
	})
	if len(all) > maxProcesses {
		rest := Process{Name: "other processes"}
		for _, p := range all[maxProcesses:] {
			rest.Memory += p.Memory
		}
		all = append(all[:maxProcesses], rest)
	}
	for i := range all {
		if p := &all[i]; p.PID > 0 && !p.Host {
			p.Name = readText(root, path.Join("/proc", strconv.Itoa(p.PID), "comm"))
		}
	}
	return all
}
