package gpuwatch

import (
	"slices"
	"strings"

	"concourse-ci-machine/internal/gpuservice"
	"concourse-ci-machine/internal/oci/withheld"
)

// isOpenIn begins the reason for withholding a GPU that a container has open without a lease.
const isOpenIn = "is open in container "

// openElsewhere returns the leased GPUs that a container of Concourse has open, and has not
// leased. A task can pass an open node through a socket; the receiver keeps it when the
// lease has ended. Containers of other engines can be there to watch GPUs: Open has none.
// The result is nil if it is not known.
func (u *Unit) openElsewhere(l gpuservice.Look) []withheld.GPU {
	if l.Unknown != "" || l.TasksUnknown {
		return nil
	}
	found := []withheld.GPU{}
	for _, s := range l.GPUs {
		holder, leased := l.Holders[s.Name]
		if !leased {
			continue
		}
		at := slices.IndexFunc(s.Open, func(container string) bool { return container != holder })
		if at >= 0 {
			found = append(found, withheld.GPU{Name: s.Name, Why: isOpenIn + s.Open[at] + ", which has not leased it (fly containers shows its build)"})
		}
	}
	return found
}

// keptOpen returns what the last look found, for changes that people make between two looks.
func (u *Unit) keptOpen() (kept []withheld.GPU) {
	data, err := u.Host.ReadFile(gpuservice.WithheldFile)
	if err != nil {
		return nil
	}
	f, _ := withheld.Decode(data)
	return slices.DeleteFunc(f.GPUs, func(g withheld.GPU) bool { return !strings.HasPrefix(g.Why, isOpenIn) })
}
