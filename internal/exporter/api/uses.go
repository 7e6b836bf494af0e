package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// Use describes a container that uses a GPU, leases it, or both.
type Use struct {
	Name      string
	Title     string // of a run, "" without one
	Processes int
	Named     []usage.Process // the processes with memory, the largest first
	Memory    string          // "1.0 GiB vram, 2.0 MiB gtt"
	Engines   string          // "gfx 83 % (2m3s)": share of the time between two scans, and total
	Units     string          // compute units; "" if the GPU does not report them
	Lease     string          // "12m", "" without a lease
}

// Text returns all but the name in one line.
func (u Use) Text() string {
	var named []string
	for _, p := range u.Named {
		named = append(named, fmt.Sprintf("%s (%d)", p.Name, p.PID))
	}
	processes := units.Count(u.Processes, "process")
	if len(named) > 0 {
		processes += ": " + strings.Join(named, ", ")
	}
	parts := []string{processes, u.Memory, u.Engines}
	if u.Units != "" {
		parts = append(parts, u.Units+" compute units")
	}
	if u.Lease != "" {
		parts = append(parts, "leased: "+u.Lease)
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "; ")
}

// ProcessNames lists the names of the processes with memory, each once: "python3, rocprof".
func (u Use) ProcessNames() string {
	var names []string
	for _, p := range u.Named {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, ", ")
}

// namedProcesses returns the processes of a container, or those outside of containers.
func namedProcesses(all []usage.Process, container string) (out []usage.Process) {
	for _, p := range all {
		if p.Container == container && p.PID > 0 && p.Name != "" {
			out = append(out, p)
		}
	}
	return out
}

// UsesOf lists the users and the lease holder of a GPU, the holder first. Removed
// containers without any time are left out.
func UsesOf(s Status, at time.Time) []Use {
	var out []Use
	holder := ""
	if l := s.Lease; l != nil && l.Held {
		use := Use{Name: cmp.Or(l.Name(), "unknown"), Title: l.Title, Lease: "held"}
		if l.Since != nil {
			use.Lease = units.Age(at.Sub(*l.Since))
		}
		if l.Doubt != "" {
			use.Lease += ", in doubt"
		}
		if l.Clocks != "" {
			use.Lease += ", clocks fixed"
		}
		holder, out = l.Container, append(out, use)
	}
	for _, u := range s.Users {
		use := Use{Name: u.Container, Processes: u.Processes, Memory: memoryText(u.Memory), Engines: enginesText(u),
			Named: namedProcesses(s.Processes, u.Container)}
		switch use.Name {
		case "":
			use.Name = cmp.Or(use.ProcessNames(), "no container")
		case usage.Other:
			use.Name = "other containers"
		}
		if u.Units != nil {
			use.Units = fmt.Sprintf("%.0f", *u.Units)
		}
		switch {
		case u.Container != "" && u.Container == holder:
			use.Name, use.Title, use.Lease = out[0].Name, out[0].Title, out[0].Lease
			out[0] = use
		case u.Processes > 0:
			out = append(out, use)
		}
	}
	return out
}

// idleLoad is the highest load of a GPU without users, for a display and the driver itself.
const idleLoad = .1

// Unseen reports whether a GPU without listed users has a load, so that a scan cannot see
// its users.
func Unseen(activity *float64) bool { return activity != nil && *activity > idleLoad }

// Unused returns the text of a GPU without uses.
func Unused(s Status) string {
	switch {
	case s.Lease != nil && !s.Excluded():
		return "free"
	case s.Users == nil || Unseen(s.Activity):
		return "users not known"
	}
	return "not in use"
}

// memoryText lists the kinds with any memory.
func memoryText(by map[string]float64) string {
	var parts []string
	for _, kind := range []string{"vram", "gtt", "kfd", "cpu"} {
		if by[kind] > 0 {
			parts = append(parts, units.Bytes(by[kind])+" "+kind)
		}
	}
	return strings.Join(parts, ", ")
}

func enginesText(u User) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(u.Engines)) {
		seconds := units.Duration(time.Duration(u.Engines[name] * float64(time.Second)))
		if busy, ok := u.Busy[name]; ok {
			seconds = fmt.Sprintf("%.0f %% (%s)", busy*100, seconds)
		}
		parts = append(parts, name+" "+seconds)
	}
	return strings.Join(parts, ", ")
}
