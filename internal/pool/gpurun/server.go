package gpurun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// Bounds of the service.
const (
	maxPeers     = 256 // connections of one user
	maxAll       = 2048
	requestLimit = 10 * time.Second // to send a request
	replyLimit   = 10 * time.Second // to take an answer
	// retry is the time between two looks at the GPUs for waiting requests, because
	// containers do not report their end.
	retry = 500 * time.Millisecond
	// look is the time between two looks at what remains of runs.
	look = 2 * time.Second
	// news is the time between two lines for a client that waits.
	news = time.Minute
)

// Server is the lease service.
type Server struct {
	Root    host.Root
	Machine func() (Machine, error)       // the GPUs now; cheap if they have not changed
	Groups  func() (rungroup.Tree, error) // of this machine
	Log     io.Writer                     // a line for each grant, end and problem
	Idle    time.Duration                 // without work, after which Serve returns
	Ended   func(End)                     // called for each run of which nothing remains
	Clocks  Clocks                        // of the GPUs; nil fixes none
	// Explain returns the record of a run for people, or in JSON. Only root can read records.
	Explain func(run string, json bool) (string, error)

	began   time.Time
	mu      sync.Mutex
	waiting []*waiter
	runs    []*run
	peers   map[uint32]int
	all     int
	wake    chan struct{}
}

// Serve answers requests until ctx ends, or until there was no work for the time of Idle.
// Runs go on without it: a later Serve finds them again.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.peers, s.wake, s.began = map[uint32]int{}, make(chan struct{}, 1), time.Now()
	s.findRuns()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			go s.serve(ctx, c.(*net.UnixConn))
		}
	}()
	idle := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("cannot accept a connection: %w", err)
		case <-s.wake:
		case <-time.After(s.pause()):
		}
		s.endRuns()
		s.serveWaiting()
		if s.busy() {
			idle = time.Now()
		} else if time.Since(idle) >= s.Idle {
			return nil
		}
	}
}

// pause returns the time until the next look.
func (s *Server) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		return retry
	}
	return look
}

func (s *Server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all > 0 || len(s.waiting) > 0 || slices.ContainsFunc(s.runs, func(r *run) bool { return !r.found })
}

// poke makes the service look at once.
func (s *Server) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Server) log(format string, args ...any) { fmt.Fprintf(s.Log, format+"\n", args...) }

// serveWaiting serves the queue with the GPUs as they are now.
func (s *Server) serveWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return
	}
	m, err := s.Machine()
	if err != nil {
		for _, w := range s.waiting {
			w.outcome <- Reply{Refused: err.Error()}
		}
		s.waiting = nil
		return
	}
	s.waiting = serveQueue(s.waiting, m, func(w *waiter, of []int, count int) (*Grant, error) {
		got, err := s.grant(m, w, of, count)
		if err == nil {
			return got, nil
		}
		if w.request.NoWait {
			m.Leases.CountRefusal(err)
		}
		return nil, err
	})
}

// serve answers one connection.
func (s *Server) serve(ctx context.Context, c *net.UnixConn) {
	defer c.Close()
	p, err := peerOf(c)
	if err == nil {
		err = s.admit(p)
	}
	if err != nil {
		s.reply(c, Reply{Refused: err.Error()})
		return
	}
	defer s.dismiss(p)
	w, err := s.receive(c, p)
	if err != nil {
		s.reply(c, Reply{Refused: err.Error()})
		return
	}
	gone := make(chan struct{})
	go func() { // a client sends nothing more but its status, so this ends with the run
		var status Status
		if line, err := readLine(c, maxStatus); err == nil {
			_ = json.Unmarshal(line, &status) // without one it is not known
		}
		s.endCommand(w.process, status.Exit)
		w.status <- status
		close(gone)
	}()
	if len(w.outcome) == 0 && !w.granted {
		s.enqueue(w)
	}
	defer s.withdraw(w)
	s.poke()
	first, every := time.NewTimer(2*retry), time.NewTicker(news)
	defer first.Stop()
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			return
		case r := <-w.outcome:
			if s.reply(c, r) == nil && r.Granted != nil && w.request.Process == nil {
				<-gone // the client keeps the connection while its command runs
			}
			return
		case <-first.C:
		case <-every.C:
		}
		s.mu.Lock()
		why := w.why
		s.mu.Unlock()
		if why != "" && s.reply(c, Reply{Waiting: why}) != nil {
			return
		}
	}
}

func (s *Server) reply(c net.Conn, r Reply) error {
	data, err := json.Marshal(r)
	if err == nil {
		_ = c.SetWriteDeadline(time.Now().Add(replyLimit))
		_, err = c.Write(append(data, '\n'))
	}
	return err
}

// admit counts a connection, or refuses one too many.
func (s *Server) admit(p peer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers[p.uid] >= maxPeers || s.all >= maxAll {
		return fmt.Errorf("cannot lease GPUs: %s has %d requests and runs; end some first", p.name, s.peers[p.uid])
	}
	s.peers[p.uid]++
	s.all++
	return nil
}

func (s *Server) dismiss(p peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.peers[p.uid]--; s.peers[p.uid] == 0 {
		delete(s.peers, p.uid)
	}
}

// receive reads a request and checks that its sender may make it.
func (s *Server) receive(c net.Conn, p peer) (*waiter, error) {
	_ = c.SetReadDeadline(time.Now().Add(requestLimit))
	line, err := readLine(c, maxRequest)
	_ = c.SetReadDeadline(time.Time{})
	var r Request
	if err == nil {
		r, err = decodeRequest(line)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it did not come within %v", requestLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a request: %w", err)
	}
	if r.Explain != "" {
		text, err := s.explain(r, p)
		if err != nil {
			return nil, err
		}
		w := &waiter{outcome: make(chan Reply, 1), status: make(chan Status, 1)}
		w.outcome <- Reply{Explained: text}
		return w, nil
	}
	w := &waiter{request: r, peer: p, process: p.process, since: s.arrival(r, p.process), outcome: make(chan Reply, 1),
		status: make(chan Status, 1)}
	if r.Process != nil {
		w.process = *r.Process
		if !p.seesNumbers() {
			return nil, fmt.Errorf("cannot lease GPUs for process %d: it is in a container, where processes have "+
				"other numbers; run gpukit lease outside", w.process.PID)
		}
		if err := p.mayLease(w.process); err != nil {
			return nil, err
		}
	}
	if groups, err := s.Groups(); err == nil {
		if run, _ := groups.RunOf(w.process.PID); run != "" {
			if s.repeat(run, w) {
				return w, nil
			}
			return nil, fmt.Errorf("cannot lease GPUs: process %d is part of %s and has its GPUs; run the command "+
				"without gpukit run", w.process.PID, run)
		}
	}
	w.title = CleanTitle(cmp.Or(r.Title, p.name+": "+r.Command))
	if r.Job != "" {
		m, err := s.Machine()
		if err != nil {
			return nil, err
		}
		w.job, _ = m.Leases.Digest(p.name, r.Job) // without it, reruns may get the same GPU
	}
	return w, nil
}

// explain returns the record of a run to a process that is part of it.
func (s *Server) explain(r Request, p peer) (string, error) {
	groups, err := s.Groups()
	if err != nil {
		return "", err
	}
	if run, _ := groups.RunOf(p.process.PID); run != r.Explain || s.Explain == nil {
		return "", fmt.Errorf("cannot explain %s to a process outside of it: run it with sudo", r.Explain)
	}
	return s.Explain(r.Explain, r.JSON)
}

func (s *Server) enqueue(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, w)
	slices.SortStableFunc(s.waiting, (*waiter).before)
}

func (s *Server) withdraw(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = remove(s.waiting, w)
	s.poke()
}
