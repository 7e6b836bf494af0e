// Package tasknotice tells a build that a GPU fell sick under it: one line into the output
// of its task, and on demand the task's end. Plan, a pure function, makes of what
// quarantine decided who is told what, once; Tasks carries it out on the processes of
// Concourse's containers, with root's rights, and on no others. It waits for no task, and
// decides nothing about GPUs.
package tasknotice

import (
	"cmp"
	"slices"
	"time"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
)

// Action is the option gpu-hang-action.
type Action string

// The actions.
const (
	Write   Action = "write"    // tell the build, and let it run
	EndTask Action = "end-task" // tell it, and end its task
)

const (
	// fresh is how long it counts who had a GPU. A process that dies of a hang has it
	// open no more when the hang is seen; readings of users come each 15 s.
	fresh = time.Minute
	// grace is what a task has between SIGTERM and SIGKILL, to save what it has and to
	// clean up. Container runtimes give 10 to 30 s; one that hangs in the driver uses none.
	grace = 30 * time.Second
)

// Look is what is known at one time.
type Look struct {
	At     time.Time
	Action Action
	Record quarantine.Record
	// Users are the containers that have a GPU, by the GPU's name. A GPU whose users are
	// not known is not in it.
	Users map[string][]string
}

// Memory is what is remembered from look to look, until a reboot.
type Memory struct {
	// Had is when a container was last known to have a GPU: by the GPU's name, and the
	// container's.
	Had    map[string]map[string]time.Time `json:"had,omitempty"`
	Told   []Told                          `json:"told,omitempty"`
	Ending []Ending                        `json:"ending,omitempty"`
}

// Told is a container that was told of a fault.
type Told struct {
	Container string    `json:"container"`
	GPU       string    `json:"gpu"`   // its name
	Since     time.Time `json:"since"` // it is withheld, which tells one fault from the next
}

// Ending is a container whose task was asked to end.
type Ending struct {
	Container string        `json:"container"`
	Init      lease.Process `json:"init"`
	At        time.Time     `json:"at"`
}

// Note is what one container is told.
type Note struct {
	Container string
	About     []Told
	Text      string // one line, without its end
	End       bool   // its task is ended after it
}

// Plan is whom to tell what, and the memory once that is done.
func (m Memory) Plan(l Look) (Memory, []Note) {
	m.Had = m.had(l)
	m.Told = slices.DeleteFunc(slices.Clone(m.Told), func(t Told) bool {
		g := l.Record.Find(t.GPU)
		return g == nil || g.State != quarantine.Withheld || !g.Since.Equal(t.Since)
	})
	var notes []note
	for _, g := range l.Record.GPUs {
		fault, gate := g.Met()
		if fault == nil {
			continue
		}
		_, known := l.Users[g.Name]
		for container, seen := range m.Had[g.Name] {
			t := Told{container, g.Name, g.Since}
			if !wellknown.IsHandle(container) || slices.ContainsFunc(m.Told, t.same) {
				continue
			}
			m.Told = append(m.Told, t)
			// Who had it a moment ago, and has not now, may have done with it.
			end := gate && l.Action == EndTask && (seen.Equal(l.At) || !known)
			notes = collect(notes, note{container, wordsOf(g), gate, end, []Told{t}, []int{g.Index}})
		}
	}
	slices.SortFunc(m.Told, func(a, b Told) int { return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.GPU, b.GPU)) })
	slices.SortFunc(notes, func(a, b note) int {
		return cmp.Or(cmp.Compare(a.container, b.container), cmp.Compare(a.words, b.words))
	})
	var all []Note
	for _, n := range notes {
		all = append(all, Note{n.container, n.about, n.text(), n.end})
	}
	return m, all
}

// had is Had with this look, less what is old.
func (m Memory) had(l Look) map[string]map[string]time.Time {
	all := map[string]map[string]time.Time{}
	put := func(gpu, container string, at time.Time) {
		if all[gpu] == nil {
			all[gpu] = map[string]time.Time{}
		}
		all[gpu][container] = at
	}
	for gpu, containers := range m.Had {
		for container, at := range containers {
			if age := l.At.Sub(at); age >= 0 && age <= fresh {
				put(gpu, container, at)
			}
		}
	}
	for gpu, containers := range l.Users {
		for _, container := range containers {
			put(gpu, container, l.At)
		}
	}
	return all
}

func (t Told) same(o Told) bool {
	return t.Container == o.Container && t.GPU == o.GPU && t.Since.Equal(o.Since)
}

// without is the memory of who is still to be told.
func (m Memory) without(n Note) Memory {
	m.Told = slices.DeleteFunc(slices.Clone(m.Told), func(t Told) bool { return slices.ContainsFunc(n.About, t.same) })
	return m
}
