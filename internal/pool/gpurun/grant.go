package gpurun

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// newID returns the name of a run.
func newID() string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return "run-" + hex.EncodeToString(b[:])
}

// admitted returns the part of a request that the owner of the GPUs decides: quarantined
// GPUs, and memory that others use. As in the wrapper, a file that is missing or that
// others may write excludes none.
func (s *Server) admitted(m Machine) (want lease.Want) {
	if s.Root.OnlyRoot(quarantine.AdmissionFile) != nil {
		return want
	}
	data, err := s.Root.ReadFile(quarantine.AdmissionFile)
	if err != nil {
		return want
	}
	f, _ := admission.Decode(data)
	return f.Want(m.Leases.GPUs, s.Root.ReadFile)
}

// grant leases GPUs to a request and makes the group of the run, the best one that the
// kernel allows. Without a group, the lease is bound to the process alone.
func (s *Server) grant(m Machine, w *waiter, of []int, count int) (*Grant, error) {
	want := s.admitted(m)
	want.Of, want.Count = of, count
	if len(of) == len(m.GPUs) {
		want.Of = nil
	}
	unready := want.Unready
	want.Unready = func(gpu int) string {
		if unready != nil {
			if why := unready(gpu); why != "" {
				return why
			}
		}
		return m.GPUs[gpu].freeMemory(w.request.Memory)
	}
	call := lease.RunCall{ID: newID(), Title: w.title, PID: w.process.PID, Start: w.process.Start, StepHash: w.job}
	parents, unlimited := s.parents(w.process.PID)
	origin := ""
	if w.request.Bench {
		origin = s.originOf(w.process.PID)
	}
	for _, parent := range append(parents, "") {
		r, got, err := s.grantIn(m, parent, call, want, w.status)
		var failed *groupError
		if errors.As(err, &failed) { // the next place may do
			unlimited = failed
			continue
		}
		if err != nil {
			return nil, err
		}
		g := s.describe(m, call.ID, got, parent != "")
		if parent == "" {
			g.Unlimited = unlimited.Error()
		}
		for i := range g.GPU {
			g.GPU[i].Taken = want.Taken[got[i]]
		}
		s.log("%s leases %s to process %d of %s: %s", g.Run, numbersOf(g.GPU), w.process.PID, w.peer.name,
			w.title)
		if s.needsClocks(r, w.request.Bench) {
			r.changing = true
			go s.prepare(w, m, r, g, origin)
			return nil, nil
		}
		return g, nil
	}
	return nil, unlimited // not reached: a place without a group has no groupError
}

// describe returns the grant of these GPUs to a run. limited is set if the kernel refuses it
// the others.
func (s *Server) describe(m Machine, id string, got []int, limited bool) *Grant {
	g := &Grant{Run: id, Variables: m.variables(id, got, limited)}
	record, err := quarantine.RecordFile.Read(s.Root)
	for _, i := range got {
		text := m.GPUs[i].text()
		if err == nil && healthy(record.Find(m.GPUs[i].Address())) {
			text += ", healthy"
		}
		g.GPU = append(g.GPU, Leased{Number: m.GPUs[i].Index, Address: m.GPUs[i].Address(), Text: text})
	}
	return g
}

// repeat answers a request that was granted before, to the same process: the service may have
// ended before it answered. It returns false if the process has other GPUs.
func (s *Server) repeat(id string, w *waiter) bool {
	m, err := s.Machine()
	if err != nil {
		return false
	}
	of, count, err := m.candidates(w.request)
	if err != nil {
		return false
	}
	states, _, err := m.Leases.Read()
	if err != nil {
		return false
	}
	again := &run{call: lease.RunCall{ID: id, PID: w.process.PID, Start: w.process.Start}}
	var got []int
	for i, st := range states {
		if st.Held && st.Kind == lease.Run && st.Container == id && st.PID == w.process.PID && slices.Contains(of, i) {
			got = append(got, i)
			again.gpus, again.started, again.call.Title = append(again.gpus, st.GPU), st.Since, st.Title
		}
	}
	if len(got) != count {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.describe(m, id, got, true)
	for _, r := range s.runs {
		if r.call.ID != id {
			continue
		}
		if r.call.PID == 0 { // an earlier service granted it
			again.call.Group = r.call.Group
			s.runs = remove(s.runs, r)
			s.watch(again, w.status)
			r = again
		}
		if w.request.Bench && r.changing {
			return false
		}
		if w.request.Bench {
			r.changing, w.granted = true, true
			go s.prepare(w, m, r, g, filepath.Dir(r.call.Group))
			return true
		}
		break
	}
	w.outcome <- Reply{Granted: g}
	return true
}

// parents returns the places for the group of a run, and why there is none.
func (s *Server) parents(pid int) ([]string, error) {
	groups, err := s.Groups()
	if err != nil {
		return nil, err
	}
	return groups.Parents(pid)
}

// groupError reports that the group of a run cannot be made in a place.
type groupError struct{ error }

func (e *groupError) Unwrap() error { return e.error }

// grantIn leases GPUs with a group in parent, or without one for "". After an error nothing
// is leased and no group remains.
func (s *Server) grantIn(m Machine, parent string, call lease.RunCall, want lease.Want,
	status <-chan Status) (r *run, got []int, err error) {
	r = &run{started: time.Now()}
	if parent != "" {
		if groups, failed := s.Groups(); failed == nil {
			unit := groups.Delegated(call.PID)
			if was, failed := os.Stat(unit); failed == nil { // "" has none
				r.unit, r.unitWas = unit, was
			}
		}
		if call.Group, err = rungroup.Make(parent, call.ID); err != nil {
			return nil, nil, &groupError{err}
		}
	}
	if got, err = m.Leases.TryForRun(call, want); err == nil && call.Group != "" {
		if err = s.enclose(call, m.denied(got)); err != nil {
			err = errors.Join(&groupError{err}, m.Leases.EndRun(call.ID))
		}
	}
	if err != nil && call.Group != "" {
		_ = rungroup.Remove(call.Group) // one that remains is removed by a later service
	}
	if err == nil {
		r.call = call
		for _, i := range got {
			r.gpus = append(r.gpus, m.Leases.GPUs[i])
		}
		if call.Group != "" {
			if failed := rungroup.SetGPUs(call.Group, r.gpus); failed != nil {
				s.log("a later service may not know all GPUs of %s: %v", call.ID, failed)
			}
		}
		s.watch(r, status)
	}
	return r, got, err
}

// originOf returns the directory of a process's group, "" if it is not known.
func (s *Server) originOf(pid int) (dir string) {
	if groups, err := s.Groups(); err == nil {
		dir, _ = groups.DirOf(pid)
	}
	return dir
}

// enclose limits the group of a run and moves its process into it.
func (s *Server) enclose(call lease.RunCall, denied []rungroup.Device) error {
	groups, err := s.Groups()
	if err == nil {
		err = rungroup.Deny(call.Group, denied)
	}
	if err == nil {
		err = groups.Move(call.Group, lease.Process{PID: call.PID, Start: call.Start})
	}
	return err
}

// healthy reports whether the owner of the GPUs sees no fault of a GPU. nil means not known.
func healthy(g *quarantine.GPU) bool {
	return g != nil && g.State == quarantine.InService && len(g.ActiveFaults) == 0
}

// runOf returns the run with this group.
func runOf(dir string) string {
	_, id, _ := strings.Cut(filepath.Base(dir), "-")
	return id
}

// remove returns a list without one of its elements.
func remove[T comparable](list []T, one T) []T {
	return slices.DeleteFunc(list, func(o T) bool { return o == one })
}
