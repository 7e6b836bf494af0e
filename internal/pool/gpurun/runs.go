package gpurun

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// run is a lease that this service has granted, or that it found.
type run struct {
	call lease.RunCall // without a process if it was found
	over bool          // its process has ended

	gpus    []string // names of their leases
	started time.Time
	exit    *int // of its command; nil if it is not known
	// reported is set when Ended had its end.
	reported bool

	restored bool // its clocks, or that was tried
	changing bool // clocks of its GPUs, in a separate process
	// unit is the group of a unit with Delegate=, outside of which the run is. A later service
	// does not have it.
	unit    string
	unitWas os.FileInfo
	stopped time.Time // SIGTERM was sent, because the unit has ended

	// found is set for a group without a lease here, of which only the empty directory is
	// removed.
	found bool
}

// statusLimit bounds the wait for the status of a run with a process that has ended. A child
// can have inherited the connection.
const statusLimit = time.Second

// watch adds a run, and looks at it as soon as its process has ended. The caller holds the
// lock.
func (s *Server) watch(r *run, status <-chan Status) {
	s.runs = append(s.runs, r)
	fd, err := unix.PidfdOpen(r.call.PID, 0)
	if err == nil {
		// The number may be another process's by now.
		is := lease.Process{PID: r.call.PID, Start: r.call.Start}
		if there, failed := (lease.Leases{}).Alive(is); !there || failed != nil {
			unix.Close(fd)
			err = unix.ESRCH
		}
	}
	if err != nil {
		r.over = true
		s.poke()
		return
	}
	go func() {
		waitForEnd(fd)
		var last Status
		select {
		case last = <-status:
		case <-time.After(statusLimit):
		}
		s.mu.Lock()
		r.over, r.exit = true, last.Exit
		s.mu.Unlock()
		s.poke()
	}()
}

// waitForEnd waits until the process of a pidfd has ended, and closes it. It blocks no thread.
func waitForEnd(pidfd int) {
	_ = unix.SetNonblock(pidfd, true) // for the runtime's poller
	f := os.NewFile(uintptr(pidfd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// abandoned is the age after which an empty group without a lease is removed. A younger one
// may belong to the service of a container, which is making it.
const abandoned = time.Minute

func isOld(group string) bool {
	st, err := os.Stat(group)
	return err == nil && time.Since(st.ModTime()) > abandoned
}

// findRuns finds the groups of runs that an earlier service has granted.
func (s *Server) findRuns() {
	groups, err := s.Groups()
	if err != nil {
		return
	}
	dirs, err := groups.All()
	var m Machine
	if err == nil {
		m, err = s.Machine()
	}
	var states []lease.State
	if err == nil {
		states, _, err = m.Leases.Read()
	}
	if err != nil {
		s.log("cannot find earlier runs: %v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dir := range dirs {
		id := runOf(dir)
		r := &run{call: lease.RunCall{ID: id, Group: dir}, over: true, found: true}
		for _, st := range states {
			if st.Kind == lease.Run && st.Container == id {
				r.found, r.started, r.call.Title, r.gpus = false, st.Since, st.Title, append(r.gpus, st.GPU)
			}
		}
		// A run that ended without a service may have lost GPUs to other holders already.
		if all := rungroup.GPUs(dir); len(all) > len(r.gpus) && !r.found {
			r.gpus = all
		}
		s.runs = append(s.runs, r)
	}
}

// killAfter is the time from SIGTERM to SIGKILL for a run with a unit that has ended.
const killAfter = 10 * time.Second

// followUnit ends the process of a run if the unit that it came from has ended. A unit that was
// restarted has another group.
func (s *Server) followUnit(r *run) {
	if r.unit == "" || r.over {
		return
	}
	is, err := os.Stat(r.unit)
	if err == nil && os.SameFile(is, r.unitWas) || err != nil && !errors.Is(err, os.ErrNotExist) {
		return
	}
	signal := unix.SIGTERM
	switch {
	case r.stopped.IsZero():
		r.stopped = time.Now()
		s.log("%s ends, because its unit has ended: %s", r.call.ID, r.unit)
	case time.Since(r.stopped) < killAfter:
		return
	default:
		signal = unix.SIGKILL
	}
	if err := (lease.Leases{}).Signal(lease.Process{PID: r.call.PID, Start: r.call.Start}, signal); err != nil {
		s.log("cannot end %s: %v", r.call.ID, err)
	}
}

// endRuns ends what remains of ended runs, and frees the GPUs and groups of those of which
// nothing remains.
func (s *Server) endRuns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var over []*run
	for _, r := range s.runs {
		s.followUnit(r)
		if r.over {
			over = append(over, r)
		}
	}
	if len(over) == 0 {
		return
	}
	m, err := s.Machine()
	if err != nil {
		s.log("cannot end runs: %v", err)
		return
	}
	for _, r := range over {
		inside, err := m.Leases.InGroup(r.call.Group)
		switch {
		case r.call.Group == "": // if it could not be watched, its process may still run
			there, err := m.Leases.Alive(lease.Process{PID: r.call.PID, Start: r.call.Start})
			if there || err != nil {
				continue
			}
		case r.found && (len(inside) > 0 || err != nil || !isOld(r.call.Group)):
			continue
		case err != nil:
			s.log("cannot see the processes of %s: %v", r.call.ID, err)
			continue
		case len(inside) > 0:
			continue
		}
		if !s.restore(r) {
			continue
		}
		if err := m.Leases.EndRun(r.call.ID); err != nil {
			s.log("cannot free the GPUs of %s: %v", r.call.ID, err)
			continue
		}
		if r.call.Group != "" {
			if err := rungroup.Remove(r.call.Group); err != nil {
				continue // its last process is just ending
			}
		}
		s.runs = remove(s.runs, r)
		s.log("%s has ended", r.call.ID)
		s.reportEnd(r)
		if s.Clocks != nil && s.Clocks.Forget(r.call.ID) != nil {
			s.log("cannot remove %s", s.Clocks.Record(r.call.ID))
		}
	}
	if !slices.ContainsFunc(s.runs, func(r *run) bool { return r.over && !r.found }) {
		return
	}
	ended, err := m.Leases.EndRemaining(m.Leases.Signal)
	if err != nil {
		s.log("cannot end what remains of runs: %v", err)
	}
	for _, e := range ended {
		s.log("sent %s to %s that remained of %s", unix.SignalName(e.Signal), units.Count(e.Processes, "process"),
			e.Container)
	}
}

// endCommand reports the end of a run after its client sent the command's status. The client
// waits for the verdict, so its lease lasts a little longer.
func (s *Server) endCommand(p lease.Process, exit *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.call.PID == p.PID && r.call.Start == p.Start && exit != nil {
			r.exit = exit
			s.reportEnd(r)
		}
	}
}

// reportEnd reports the end of a run once. The caller holds the lock.
func (s *Server) reportEnd(r *run) {
	if !r.reported && !r.started.IsZero() && s.Ended != nil {
		r.reported = true
		s.Ended(End{r.call.ID, r.call.Title, r.gpus, r.started, time.Now(), r.exit})
	}
}

// numbersOf lists GPUs: "GPU 0, 2".
func numbersOf(gpus []Leased) string {
	var all []string
	for _, g := range gpus {
		all = append(all, strconv.Itoa(g.Number))
	}
	return "GPU " + strings.Join(all, ", ")
}

// Text describes a grant for people: which GPUs a run has, and how long it waited.
func (g Grant) Text(waited time.Duration) string {
	text := g.Run + " has "
	for i, one := range g.GPU {
		if i > 0 {
			text += ", "
		}
		text += "GPU " + strconv.Itoa(one.Number) + " (" + one.Text + ")"
	}
	if g.Clocks != "" {
		text += " with fixed clocks (" + g.Clocks + ")"
	}
	if waited >= time.Second {
		text += " after " + units.Duration(waited)
	}
	return text
}
