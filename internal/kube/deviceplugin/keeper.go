package deviceplugin

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"concourse-ci-machine/internal/pool/lease"
)

// leased reports whether GPUs are leased at all.
func (m machine) leased() bool { return m.leases.Dir != "" }

// readLeases finds who has the GPUs.
func (m *machine) readLeases() error {
	if !m.leased() {
		return nil
	}
	states, _, err := m.leases.Read()
	if err != nil {
		return err
	}
	m.states = states
	for i, s := range states {
		if s.Held && s.Kind != lease.Pod {
			m.devices[i].holder = s.Holder()
		}
	}
	return nil
}

// withheld are the GPUs that no pod gets now.
func (m machine) withheld() (of []lease.Withheld) {
	for i, d := range m.devices {
		if d.withheld != "" {
			of = append(of, lease.Withheld{GPU: i, Why: d.withheld})
		}
	}
	return of
}

// keep leases GPUs to a pod whose name is not known yet.
func (m machine) keep(gpus []int) error {
	if m.leased() {
		return m.leases.Keep(lease.PodToCome, gpus, m.withheld())
	}
	for _, i := range gpus {
		if why := m.devices[i].withheld; why != "" {
			return errors.New(m.devices[i].label + " " + why)
		}
	}
	return nil
}

// settle brings the leases in line with the pods that the kubelet lists. While it does not
// answer, what pods have stays theirs.
func (p *plugin) settle(ctx context.Context) error {
	if !p.seen.leased() {
		return nil
	}
	pods, err := listPods(ctx, filepath.Join(p.kubelet, "pod-resources", "kubelet.sock"), p.seen)
	if err != nil {
		return err
	}
	states, _, err := p.seen.leases.Read() // Allocate may have been called since the look
	if err != nil {
		return err
	}
	c := reconcile(states, pods, p.noted(), p.waited(states))
	for _, pod := range slices.Sorted(maps.Keys(c.keep)) {
		err = errors.Join(err, p.seen.leases.Keep(pod, c.keep[pod], nil))
	}
	err = errors.Join(err, p.seen.leases.GiveBack(c.back))
	if c.ask && p.now().Sub(p.asked) > askAgain {
		p.asked = p.now()
		p.before, _ = os.Stat(filepath.Join(p.socketDir(), notesFile)) // nil if there are none
		for _, s := range p.services {
			s.again()
		}
	}
	return err
}

// askAgain is how often the kubelet is made to write its notes while they are needed.
const askAgain = 10 * time.Second

// noted returns the GPUs of the kubelet's notes, nil if the kubelet has not written them
// since it was asked to, or if they can't be read.
func (p *plugin) noted() map[int]bool {
	if p.asked.IsZero() {
		return nil
	}
	notes, err := readNotes(p.socketDir(), p.before)
	if err != nil || notes == nil {
		return nil
	}
	gpus := map[int]bool{}
	for _, n := range notes {
		for _, i := range p.seen.known(n.ResourceName, n.ids()) {
			gpus[i] = true
		}
	}
	return gpus
}
