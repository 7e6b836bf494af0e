package quarantine

import (
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// From both amounts on, memory that others use is shown. Less is the driver's share, or a
// small desktop.
const (
	takenShare = .1
	takenLeast = 512 << 20
)

// Taken returns the bytes that others use: processes of no task, and memory without an owner.
// It returns 0 for less than takenShare.
func (m *Memory) Taken() float64 {
	if m == nil {
		return 0
	}
	taken := 0.
	for _, p := range m.Processes {
		taken += p.Memory
	}
	if m.Unowned >= m.least() {
		taken += m.Unowned
	}
	if taken < m.least() {
		return 0
	}
	return taken
}

// least returns the bytes from which on memory that others use is shown.
func (m *Memory) least() float64 { return max(takenShare*m.Total, takenLeast) }

// FreeShare returns the part of the memory that others leave, 0 to 1.
func (m *Memory) FreeShare() float64 {
	if m.Taken() == 0 {
		return 1
	}
	return max(0, 1-m.Taken()/m.Total)
}

// maxOwners bounds the owners that a text names.
const maxOwners = 3

// Text returns who uses the memory, for a line or a status: "58 of 64 GiB are used by
// llama-server, pid 4242, of this machine". It returns "" if Taken is 0.
func (m *Memory) Text() string {
	taken := m.Taken()
	if taken == 0 {
		return ""
	}
	var owners []string
	for i, p := range m.Processes {
		if i == maxOwners || i > 0 && p.Memory < takenLeast {
			break
		}
		owners = append(owners, gib(p.Memory)+" GiB by "+ownerText(p))
	}
	if rest := m.Unowned; rest >= m.least() {
		if len(owners) == 0 {
			return fmt.Sprintf("%s of %s GiB are used, and no known process has them", gib(taken), gib(m.Total))
		}
		owners = append(owners, gib(rest)+" GiB by no known process")
	}
	if len(owners) == 1 {
		return fmt.Sprintf("%s of %s GiB are used by %s", gib(taken), gib(m.Total), ownerText(m.Processes[0]))
	}
	return fmt.Sprintf("%s of %s GiB are used: %s", gib(taken), gib(m.Total), strings.Join(owners, "; "))
}

// ownerText names a process.
func ownerText(p usage.Process) string {
	switch {
	case p.PID == 0:
		return p.Name + " of this machine"
	case p.Host:
		return fmt.Sprintf("process %d of the host", p.PID)
	case p.Container != "":
		return fmt.Sprintf("%s, pid %d, in container %s", p.Name, p.PID, p.Container)
	case p.Screen:
		return fmt.Sprintf("%s, pid %d, of the desktop", p.Name, p.PID)
	}
	return fmt.Sprintf("%s, pid %d, of this machine", p.Name, p.PID)
}

// gib returns a number of GiB without its unit.
func gib(bytes float64) string {
	n := bytes / (1 << 30)
	if n >= 10 {
		return fmt.Sprintf("%.0f", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
}
