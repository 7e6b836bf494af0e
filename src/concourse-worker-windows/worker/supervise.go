package worker

import (
	"context"
	"fmt"
	"time"
)

// Times of restarts. A process that ran for healthyAfter begins with firstWait again.
const (
	firstWait    = time.Second
	longestWait  = time.Minute
	healthyAfter = 10 * time.Minute
)

// supervisor keeps Concourse's worker running.
type supervisor struct {
	start func() (Child, error)
	after func(time.Duration) <-chan time.Time // time.After
	now   func() time.Time
	// changed gets the reason to restart the worker with other tags.
	changed <-chan string
	// report gets every change: the process that runs, or why none does.
	report func(pid int, problem string)
}

// run starts the worker again after each end, until ctx ends or the worker exits with 0. It
// exits so only if the web has landed or retired it.
func (s supervisor) run(ctx context.Context) {
	wait := firstWait
	for {
		began := s.now()
		problem, released := s.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case released:
			s.report(0, "the web has retired or landed this worker; to start it again: "+Program+" install")
			return
		case s.now().Sub(began) >= healthyAfter:
			wait = firstWait
		}
		s.report(0, fmt.Sprintf("%s; starting again in %v", problem, wait))
		select {
		case <-ctx.Done():
			return
		case <-s.after(wait):
		}
		wait = min(2*wait, longestWait)
	}
}

// once runs the worker until it ends, and then ends the tasks that it left.
func (s supervisor) once(ctx context.Context) (problem string, released bool) {
	child, err := s.start()
	if err != nil {
		return fmt.Sprintf("cannot start Concourse's worker: %v", err), false
	}
	s.report(child.PID(), "")
	type end struct {
		exit int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		exit, err := child.Wait()
		ended <- end{exit, err}
	}()
	select {
	case <-ctx.Done():
		if err := child.Kill(); err != nil {
			return fmt.Sprintf("cannot end Concourse's worker: %v", err), false
		}
		<-ended
		return "", false
	case why := <-s.changed:
		if err := child.Kill(); err != nil {
			return fmt.Sprintf("cannot end Concourse's worker: %v", err), false
		}
		<-ended
		return why, false
	case e := <-ended:
		if err := child.Kill(); err != nil {
			return fmt.Sprintf("cannot end the tasks of Concourse's worker: %v", err), false
		}
		if e.err != nil {
			return fmt.Sprintf("cannot wait for Concourse's worker: %v", e.err), false
		}
		return fmt.Sprintf("Concourse's worker exited with %d", e.exit), e.exit == 0
	}
}
