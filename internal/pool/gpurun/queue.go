package gpurun

import (
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// waiter is one request in the queue.
type waiter struct {
	request Request
	peer    peer
	process lease.Process // that leases
	job     string        // digest of the job
	title   string
	since   time.Time
	why     string // it waits
	granted bool   // its answer waits for the clocks
	outcome chan Reply
	status  chan Status // of the command; receives one
}

// before orders requests by their arrival.
func (w *waiter) before(o *waiter) int { return w.since.Compare(o.since) }

// arrival returns the time from which a client waits. Clients of a service that was restarted
// come again, and keep their order by the time that they report. Later it would let a client
// overtake others, and it never exceeds the age of the client's process.
func (s *Server) arrival(r Request, p lease.Process) time.Time {
	now := time.Now()
	if r.Waited <= 0 || now.Sub(s.began) > restart {
		return now
	}
	const tick = 10 // milliseconds, of a process's start
	var boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return now
	}
	age := max(0, boot.Nano()/int64(time.Millisecond)-int64(p.Start)*tick)
	return now.Add(-time.Duration(min(r.Waited, age)) * time.Millisecond)
}

// grantor leases GPUs among these to a waiting request, or returns a *lease.Refusal. Without a
// grant and an error, it answers the request later.
type grantor func(w *waiter, of []int, count int) (*Grant, error)

// serveQueue tries each waiting request in order and returns those that still wait. A
// request gets no GPU that an earlier one could use, so a large one is not starved by small
// ones. One that waits for quarantined GPUs holds no other one back.
func serveQueue(waiting []*waiter, m Machine, grant grantor) (left []*waiter) {
	claimed := map[int]int{} // GPUs, with the number of requests that wait for them
	for _, w := range waiting {
		of, count, err := m.candidates(w.request)
		if err != nil {
			w.outcome <- Reply{Refused: err.Error()}
			continue
		}
		open := slices.DeleteFunc(slices.Clone(of), func(g int) bool { return claimed[g] > 0 })
		var refused *lease.Refusal
		if len(open) < count {
			earlier := 0
			for _, g := range of {
				earlier = max(earlier, claimed[g])
			}
			w.why = "cannot lease " + units.Count(count, "GPU") + ": " + units.Count(earlier, "earlier run") +
				" of the queue waits for the same GPUs"
			if earlier > 1 {
				w.why = strings.Replace(w.why, "waits", "wait", 1)
			}
		} else {
			got, err := grant(w, open, count)
			switch {
			case err == nil && got == nil:
				continue
			case err == nil:
				w.outcome <- Reply{Granted: got}
				continue
			case !errors.As(err, &refused) || refused.Reason == lease.Impossible:
				w.outcome <- Reply{Refused: err.Error()}
				continue
			}
			w.why = err.Error()
		}
		if w.request.NoWait {
			w.outcome <- Reply{Refused: w.why}
			continue
		}
		left = append(left, w)
		if refused == nil || refused.Reason != lease.NotInService {
			for _, g := range of {
				claimed[g]++
			}
		}
	}
	return left
}
