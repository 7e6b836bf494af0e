// Package node reads the GPUs that a node's pods may have, for the programs that offer them
// to a kubelet. It reads sysfs, the unit's settings, leases and quarantine. It opens no GPU and
// changes nothing.
package node

import (
	"fmt"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Device describes one GPU, or one partition, that pods may have. Its name for the kubelet and
// for leases is its Address.
type Device struct {
	gpu.Slot
	Paths []string // of its nodes, /dev/kfd first
	CDI   string   // its name in the machine's CDI spec; "" if it has none
	NUMA  int      // NUMA node; -1 if not known
	Style string   // its partitioning, "cpx_nps4"; "" if it cannot be partitioned

	Exclusion string    // why pods do not get it, as a text that follows its name; "" if they do
	Cause     string    // the cause of its quarantine in a word: "hang", "by_hand"; "" if it has none
	Since     time.Time // of the quarantine
	Holder    string    // the task, container or claim that leases it; "" for none
}

// Label returns the device's name in texts for people.
func (d Device) Label() string { return fmt.Sprintf("GPU %d (%s)", d.Index, d.Address()) }

// Leased reports whether GPUs are leased at all.
func (m Machine) Leased() bool { return m.Leases.Dir != "" }

// ReadLeases reads the holders of the GPUs.
func (m *Machine) ReadLeases() error {
	if !m.Leased() {
		return nil
	}
	states, _, err := m.Leases.Read()
	if err != nil {
		return err
	}
	m.States = states
	for i, s := range states {
		if _, claimed := s.Claim(); s.Held && (s.Kind != lease.Pod || claimed) {
			m.Devices[i].Holder = s.Holder()
		}
	}
	return nil
}

// Excluded returns the GPUs that no pod gets now.
func (m Machine) Excluded() (of []lease.Excluded) {
	for i, d := range m.Devices {
		if d.Exclusion != "" {
			of = append(of, lease.Excluded{GPU: i, Reason: d.Exclusion})
		}
	}
	return of
}
