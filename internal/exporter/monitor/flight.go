package monitor

import (
	"sync"
	"sync/atomic"
	"time"
)

// flights runs work that may hang in the kernel, where nothing can cancel it.
// It keeps at most one piece of work outstanding for each key: a GPU that
// hangs costs one thread, however often it is asked.
type flights[T any] struct {
	mu   sync.Mutex
	open map[flightKey]*flight[T]
}

// flightKey is a device's directory and its partition; empty for the search.
type flightKey struct {
	dir       string
	partition int
}

type flight[T any] struct {
	done  chan struct{} // closed when value is there
	value T
	late  atomic.Bool // somebody gave up on it
}

func newFlights[T any]() *flights[T] { return &flights[T]{open: map[flightKey]*flight[T]{}} }

// start begins the work, or joins the one that is outstanding.
func (s *flights[T]) start(key flightKey, work func() T) *flight[T] {
	f, run := s.join(key, work)
	if run != nil {
		go run()
	}
	return f
}

// join returns the work that is outstanding, or new work that the caller has to
// run, once.
func (s *flights[T]) join(key flightKey, work func() T) (f *flight[T], run func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.open[key]; f != nil {
		return f, nil
	}
	f = &flight[T]{done: make(chan struct{})}
	s.open[key] = f
	return f, func() {
		f.value = work()
		s.mu.Lock()
		delete(s.open, key)
		s.mu.Unlock()
		close(f.done)
	}
}

// wait returns the result, or false at the deadline. Work that was given up on
// before is not waited for again, and what it gives is too old to be shown.
func (f *flight[T]) wait(deadline <-chan time.Time) (T, bool) {
	var none T
	if f.late.Load() {
		return none, false
	}
	select {
	case <-f.done:
		return f.value, true
	case <-deadline:
	}
	select {
	case <-f.done: // both at once
		return f.value, true
	default:
		f.late.Store(true)
		return none, false
	}
}

// late reports whether somebody gave up on work that is still outstanding.
func (s *flights[T]) late(key flightKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.open[key]
	return f != nil && f.late.Load()
}
