// Package notice informs a build about its GPUs: it writes a line into the task's output
// when it has leased them, when others use their memory and when one has a fault.
// Plan is a pure function that turns leases and the decisions of quarantine into notices,
// each only once. Tasks delivers them to processes of
// Concourse's containers, with root's rights, and to no others. The package waits for no
// task, and decides nothing about GPUs.
package notice

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// fresh is how long the last use of a GPU is remembered. A process that a hang ends no
// longer has the GPU open when the hang is seen. Readings of users come every 15 s.
const fresh = time.Minute

// Look holds the input of one plan.
type Look struct {
	At     time.Time
	Record quarantine.Record
	// Users lists the containers that have a GPU, by the GPU's name. A GPU is missing if
	// its users are not known.
	Users map[string][]string
	// Leased describes the GPUs of each task that leases some, by its container.
	Leased map[string][]string
	// Taken describes who else uses the memory of a GPU, by the GPU's name.
	Taken map[string]string
}

// Memory is kept from look to look, until a reboot.
type Memory struct {
	// LastUses has the last time that a container had a GPU, by the names of the GPU and
	// the container.
	LastUses map[string]map[string]time.Time `json:"last_uses,omitempty"`
	Notified []Notified                      `json:"notified,omitempty"`
	// Leased lists the containers that have got the line about their leased GPUs.
	Leased []string `json:"leased,omitempty"`
	// Taken lists the containers without a lease that have got the line about a GPU's memory.
	Taken []Notified `json:"taken,omitempty"`
}

// Notified names a container that has got the notice of a fault.
type Notified struct {
	Container string    `json:"container"`
	GPU       string    `json:"gpu"`   // its name
	Since     time.Time `json:"since"` // of the quarantine, which identifies the fault
}

// Notice holds the notice for one container.
type Notice struct {
	Container string
	About     []Notified // faults; none: it is about the lease
	Text      string     // one line, without a newline
}

// Plan returns the notices, and the memory after they are delivered.
func (m Memory) Plan(l Look) (Memory, []Notice) {
	m.LastUses = m.lastUses(l)
	all := append(m.leased(l), m.taken(l)...)
	m.Notified = slices.DeleteFunc(slices.Clone(m.Notified), func(t Notified) bool {
		g := l.Record.Find(t.GPU)
		return g == nil || g.State != quarantine.Quarantined || !g.Since.Equal(t.Since)
	})
	var notices []draft
	for _, g := range l.Record.GPUs {
		fault, gate := g.TaskFault()
		if fault == nil {
			continue
		}
		for container := range m.LastUses[g.Name] {
			t := Notified{container, g.Name, g.Since}
			if !wellknown.IsHandle(container) || slices.ContainsFunc(m.Notified, t.same) {
				continue
			}
			m.Notified = append(m.Notified, t)
			notices = collect(notices, draft{container, describeFault(g), gate, []Notified{t}, []int{g.Index}})
		}
	}
	slices.SortFunc(m.Notified, func(a, b Notified) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.GPU, b.GPU))
	})
	slices.SortFunc(notices, func(a, b draft) int {
		return cmp.Or(cmp.Compare(a.container, b.container), cmp.Compare(a.words, b.words))
	})
	for _, n := range notices {
		all = append(all, Notice{n.container, n.about, n.text()})
	}
	return m, all
}

// leased returns the notices for tasks that have leased GPUs since the last look.
func (m *Memory) leased(l Look) (all []Notice) {
	m.Leased = slices.DeleteFunc(slices.Clone(m.Leased), func(c string) bool { return len(l.Leased[c]) == 0 })
	for _, c := range slices.Sorted(maps.Keys(l.Leased)) {
		if wellknown.IsHandle(c) && !slices.Contains(m.Leased, c) {
			m.Leased = append(m.Leased, c)
			text := "concourse-ci-machine: " + strings.Join(l.Leased[c], "; ") + ", lease of this task"
			all = append(all, Notice{Container: c, Text: sanitize.Line(text, maxText)})
		}
	}
	return all
}

// taken returns the notices for tasks that share a GPU with programs outside tasks. The line on
// a lease names these programs itself.
func (m *Memory) taken(l Look) (all []Notice) {
	m.Taken = slices.DeleteFunc(slices.Clone(m.Taken), func(t Notified) bool {
		_, uses := m.LastUses[t.GPU][t.Container]
		return !uses
	})
	for _, gpu := range slices.Sorted(maps.Keys(l.Taken)) {
		for _, c := range l.Users[gpu] {
			t := Notified{Container: c, GPU: gpu}
			if wellknown.IsHandle(c) && len(l.Leased[c]) == 0 && !slices.ContainsFunc(m.Taken, t.same) {
				m.Taken = append(m.Taken, t)
				text := "concourse-ci-machine: " + l.Taken[gpu]
				all = append(all, Notice{Container: c, Text: sanitize.Line(text, maxText)})
			}
		}
	}
	return all
}

// lastUses returns LastUses with this look and without old entries.
func (m Memory) lastUses(l Look) map[string]map[string]time.Time {
	all := map[string]map[string]time.Time{}
	put := func(gpu, container string, at time.Time) {
		if all[gpu] == nil {
			all[gpu] = map[string]time.Time{}
		}
		all[gpu][container] = at
	}
	for gpu, containers := range m.LastUses {
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

func (t Notified) same(o Notified) bool {
	return t.Container == o.Container && t.GPU == o.GPU && t.Since.Equal(o.Since)
}

// without returns the memory before this notice, so that it is sent again.
func (m Memory) without(n Notice) Memory {
	if len(n.About) == 0 {
		m.Leased = slices.DeleteFunc(slices.Clone(m.Leased), func(c string) bool { return c == n.Container })
		m.Taken = slices.DeleteFunc(slices.Clone(m.Taken), func(t Notified) bool { return t.Container == n.Container })
	}
	m.Notified = slices.DeleteFunc(slices.Clone(m.Notified),
		func(t Notified) bool { return slices.ContainsFunc(n.About, t.same) })
	return m
}

// File is the Memory. It is below /run, because no container outlives a reboot.
const File = wellknown.RunDir + "/gpu-notices.json"

// file is disposable, because at worst a build gets a notice twice.
var file = statefile.File[Memory]{Path: File, Mode: 0o600, Disposable: true}

// Read reads the memory. It is empty if the file is missing or damaged.
func Read(r host.Root) (Memory, error) { return file.Read(r) }
