package deviceplugin

import (
	"time"

	"concourse-ci-machine/internal/pool/lease"
)

// toCome is how long a GPU stays leased to a pod that the kubelet does not list yet.
const toCome = time.Minute

// change is what the records of leases need to be as the kubelet says.
type change struct {
	keep map[string][]int // GPUs by the pod that has them
	back []int            // GPUs that no pod has any more
	// ask says that the kubelet's notes are wanted, and that they have to be younger
	// than its list of pods.
	ask bool
}

// reconcile compares the records with what the kubelet lists: pods are the containers by
// the GPUs that they have. The list leaves out the init containers that run before a
// pod's others, so what is not in it counts as theirs while the kubelet has it in its
// notes. notes is nil where these are not known: then it stays. waited is how long each GPU
// has waited for its pod.
func reconcile(states []lease.State, pods map[int]string, notes map[int]bool, waited map[int]time.Duration) change {
	c := change{keep: map[string][]int{}}
	for i, s := range states {
		kept := s.Held && s.Kind == lease.Pod
		pod, has := pods[i]
		switch {
		case has && kept && s.Container == pod:
		case has:
			c.keep[pod] = append(c.keep[pod], i)
		case !kept:
		case s.Container != lease.PodToCome:
			c.back = append(c.back, i)
		case waited[i] < toCome:
		case notes == nil:
			c.ask = true
		case notes[i]:
			c.ask = true // until they have it no more
		default:
			c.back = append(c.back, i)
		}
	}
	return c
}

// awaited names a lease that waits for its pod.
type awaited struct {
	gpu   string
	since int64
}

// waited returns how long GPUs have waited for their pods, by the clock of this process:
// the record's time is wrong after the machine's clock was set.
func (p *plugin) waited(states []lease.State) map[int]time.Duration {
	now, first, waited := p.now(), map[awaited]time.Time{}, map[int]time.Duration{}
	for i, s := range states {
		if !s.Held || s.Kind != lease.Pod || s.Container != lease.PodToCome {
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
