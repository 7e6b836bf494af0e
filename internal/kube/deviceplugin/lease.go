package deviceplugin

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// listDelay is how long a GPU stays leased to a pod that the kubelet does not list yet.
const listDelay = time.Minute

// change holds the changes of leases that the kubelet's list requires.
type change struct {
	hold    map[string][]int // GPUs by the pod that has them
	release []int            // GPUs that no pod has any more
	// ask reports that the kubelet's notes are needed, newer than its list of pods.
	ask bool
}

// reconcile compares the records with the kubelet's list. states has the GPUs, then their
// replicas, and owners the index of each one's GPU. pods has the containers by index, and gets
// lease.SharingPods for the GPUs with a replica in use. The list omits init containers that
// run before a pod's others, so a missing GPU may be theirs while the kubelet's notes have it.
// notes is nil if they are not known, and then the GPU stays leased. waited is how long each
// GPU has waited for its pod.
func reconcile(states []lease.State, owners []int, pods map[int]string, notes map[int]bool,
	waited map[int]time.Duration) change {
	c := change{hold: map[string][]int{}}
	for i, s := range slices.Backward(states) { // replicas before their GPUs
		kept := s.Held && s.Kind == lease.Pod
		pod, has := pods[i]
		switch {
		case has && kept && s.Container == pod:
		case has:
			c.hold[pod] = append(c.hold[pod], i)
		case !kept:
			continue
		case s.Container != lease.StartingPod || waited[i] >= listDelay && notes != nil && !notes[i]:
			c.release = append(c.release, i)
			continue
		case waited[i] >= listDelay:
			c.ask = true // until the notes no longer have it
		}
		if owners[i] != i {
			pods[owners[i]] = lease.SharingPods
		}
	}
	return c
}

// awaited identifies a lease that waits for its pod.
type awaited struct {
	gpu   string
	since int64
}

// waited returns how long GPUs have waited for their pods, by the clock of this process,
// because the record's time is wrong after a change of the machine's clock.
func (p *plugin) waited(states []lease.State) map[int]time.Duration {
	now, first, waited := p.now(), map[awaited]time.Time{}, map[int]time.Duration{}
	for i, s := range states {
		if !s.Held || s.Kind != lease.Pod || s.Container != lease.StartingPod {
			continue
		}
		of := awaited{s.GPU, s.Since.UnixMilli()}
		seen, known := p.awaited[of]
		if !known {
			seen = now
		}
		first[of], waited[i] = seen, now.Sub(seen)
	}
	p.awaited = first
	return waited
}

// leased reports whether GPUs are leased at all.
func (m machine) leased() bool { return m.leases.Dir != "" }

// readLeases reads the holders of the GPUs.
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

// excluded returns the GPUs that no pod gets now.
func (m machine) excluded() map[int]string {
	of := map[int]string{}
	for i, d := range m.devices {
		if d.exclusion != "" {
			of[i] = d.exclusion
		}
	}
	return of
}

// hold leases GPUs or replicas to a pod that is not known yet.
func (m machine) hold(ids []string) error {
	if !m.leased() {
		for _, id := range ids {
			switch d := m.devices[m.gpuOf(id)]; {
			case d.exclusion != "":
				return errors.New(d.label() + " " + d.exclusion)
			case d.holder != "":
				return errors.New(d.label() + " is held by " + d.holder)
			}
		}
		return nil
	}
	states, _, err := m.leases.Read()
	if err == nil {
		err = m.checkUse(ids, states)
	}
	if err != nil {
		return err
	}
	m.addReplicas(ids)
	var indexes []int
	for _, id := range ids {
		indexes = append(indexes, slices.Index(m.names(), id))
	}
	return m.holdFor(lease.StartingPod, indexes, m.excluded())
}

// settle adjusts the leases to the pods that the kubelet lists. If the kubelet does not
// answer, pods keep their GPUs.
func (p *plugin) settle(ctx context.Context) error {
	if !p.seen.leased() {
		return nil
	}
	var err error
	if p.uses, err = listUses(ctx, p.kubelet); err != nil {
		return err
	}
	for _, u := range p.uses {
		p.seen.addReplicas(u.ids)
	}
	states, err := p.seen.readAll() // Allocate may have been called since the look
	if err != nil {
		return err
	}
	c := reconcile(states, p.seen.owners(), p.seen.podsOf(p.uses), p.noted(), p.waited(states))
	for _, pod := range slices.Sorted(maps.Keys(c.hold)) {
		err = errors.Join(err, p.seen.holdFor(pod, c.hold[pod], nil))
	}
	gpus, replicas := p.seen.byLease(c.release)
	err = errors.Join(err, p.seen.replicas.ReleasePod(replicas), p.seen.leases.ReleasePod(gpus))
	if c.ask && p.now().Sub(p.asked) > askAgain {
		p.asked = p.now()
		p.before, _ = os.Stat(filepath.Join(p.socketDir(), notesFile)) // nil if there are none
		for _, s := range p.services {
			s.sendAgain()
		}
	}
	return err
}

// findOtherUse keeps GPUs from pods that others have in the other way: alone, or as a shared
// one, by options of before. Without leases only the kubelet knows. While it does not answer,
// it starts no pod.
func (p *plugin) findOtherUse(ctx context.Context) {
	if p.seen.leased() {
		return
	}
	p.uses, _ = listUses(ctx, p.kubelet)
	for _, u := range p.uses {
		for _, id := range u.ids {
			i := p.seen.gpuOf(id)
			if i >= 0 && isReplica(id) != (p.seen.devices[i].replicas > 0) {
				p.seen.devices[i].holder = lease.State{Kind: lease.Pod, Container: u.container}.Holder()
			}
		}
	}
}

// askAgain is the interval in which the kubelet must write its notes while they are needed.
const askAgain = 10 * time.Second

// noted returns the GPUs in the kubelet's notes. It returns nil if the kubelet has not written
// them since the last request, or if they cannot be read.
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
		if !isOurs(n.ResourceName) {
			continue
		}
		for _, i := range p.seen.indexesOf(n.ids()) {
			gpus[i] = true
		}
	}
	return gpus
}
