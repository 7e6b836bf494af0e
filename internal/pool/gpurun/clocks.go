package gpurun

import (
	"errors"
	"fmt"
	"sync"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// Clocks fixes the clocks of GPUs for runs that measure. Its methods return in bounded time,
// even if a GPU hangs. They never ask a driver in this process.
type Clocks interface {
	// Fixed returns the holder for which a GPU's clocks are fixed, without a wait.
	Fixed(gpu string) (holder string, fixed bool)
	Fix(gpu, run string) error
	// Restore restores the clocks of a GPU if their holder has ended, and Reset in any case.
	Restore(gpu string) error
	Reset(gpu string) error
	// Record returns the path of the file in which a run reads whether its measurements are valid.
	// Forget removes it.
	Record(run string) string
	Forget(run string) error
}

// recordVariable names the file of Clocks.Record, as for a task.
const recordVariable = "GPU_FIXED_CLOCKS_RECORD"

// needsClocks reports whether a grant waits for a change of clocks: the run measures, or an earlier
// holder left them fixed.
func (s *Server) needsClocks(r *run, bench bool) bool {
	if s.Clocks == nil {
		return false
	}
	for _, gpu := range r.gpus {
		if _, fixed := s.Clocks.Fixed(gpu); fixed || bench {
			return true
		}
	}
	return false
}

// prepare sets the clocks of a granted run, then answers its request. It does not hold the lock
// while a GPU may hang. Without clocks the run ends, and its process returns to its group origin.
func (s *Server) prepare(w *waiter, m Machine, r *run, g *Grant, origin string) {
	var err error
	if w.request.Bench {
		if err = each(r.gpus, func(gpu string) error { return s.Clocks.Fix(gpu, r.call.ID) }); err != nil {
			s.logClocks(r, each(r.gpus, s.Clocks.Reset))
		}
		g.Clocks = m.levelOf(r.gpus)
		g.Variables = append(g.Variables, recordVariable+"="+s.Clocks.Record(r.call.ID))
	} else {
		s.logClocks(r, each(r.gpus, s.Clocks.Restore))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.poke()
	r.changing = false
	if err == nil {
		w.outcome <- Reply{Granted: g}
		return
	}
	s.undo(m, r, origin)
	w.outcome <- Reply{Refused: fmt.Sprintf("cannot fix the clocks: %v; without --bench they follow load and heat", err)}
}

// undo ends a run before its command starts. The caller holds the lock.
func (s *Server) undo(m Machine, r *run, origin string) {
	err := s.Clocks.Forget(r.call.ID)
	if r.call.Group != "" {
		groups, failed := s.Groups()
		if failed == nil {
			failed = groups.Empty(r.call.Group, origin)
		}
		err = errors.Join(err, failed)
	}
	if err = errors.Join(err, m.Leases.EndRun(r.call.ID)); err == nil && r.call.Group != "" {
		err = rungroup.Remove(r.call.Group)
	}
	if err != nil { // it ends with its process
		s.logClocks(r, err)
		return
	}
	s.runs = remove(s.runs, r)
}

// restore begins to restore the clocks that an ended run had fixed, once, and reports whether that
// is over. Then the GPU is free, even if it hangs: whoever gets it restores them again. The caller
// holds the lock.
func (s *Server) restore(r *run) (over bool) {
	if s.Clocks == nil || r.restored || r.changing {
		return !r.changing
	}
	var fixed []string
	for _, gpu := range r.gpus {
		if holder, _ := s.Clocks.Fixed(gpu); holder == r.call.ID {
			fixed = append(fixed, gpu)
		}
	}
	r.restored = true
	if len(fixed) == 0 {
		return true
	}
	s.reportEnd(r) // while the record of its clocks is there
	r.changing = true
	go func() {
		s.logClocks(r, each(fixed, s.Clocks.Restore))
		s.mu.Lock()
		r.changing = false
		s.mu.Unlock()
		s.poke()
	}()
	return false
}

func (s *Server) logClocks(r *run, err error) {
	if err != nil {
		s.log("cannot change the clocks of %s: %v", r.call.ID, err)
	}
}

// each changes GPUs at once, and returns all errors in one line.
func each(gpus []string, change func(gpu string) error) (all error) {
	failed := make([]error, len(gpus))
	var wait sync.WaitGroup
	for i, gpu := range gpus {
		wait.Go(func() { failed[i] = change(gpu) })
	}
	wait.Wait()
	for _, err := range failed {
		switch {
		case err == nil:
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// levelOf returns the level at which the clocks of GPUs are fixed.
func (m Machine) levelOf(gpus []string) (level string) {
	for _, g := range m.GPUs {
		if g.Address() == gpus[0] && g.Clocks != nil {
			level = string(g.Clocks.Level)
		}
	}
	return level
}
