package exporter

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
	open map[string]*flight[T]
}

type flight[T any] struct {
	done  chan struct{} // closed when value is there
	value T
	late  atomic.Bool // somebody gave up on it
	at    atomic.Pointer[string]
}

func newFlights[T any]() *flights[T] { return &flights[T]{open: map[string]*flight[T]{}} }

// start begins the work, or joins the one that is outstanding.
func (s *flights[T]) start(key string, work func(at *atomic.Pointer[string]) T) *flight[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.open[key]; f != nil {
		return f
	}
	f := &flight[T]{done: make(chan struct{})}
	s.open[key] = f
	go func() {
		f.value = work(&f.at)
		s.mu.Lock()
		delete(s.open, key)
		s.mu.Unlock()
		close(f.done)
	}()
	return f
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

// where is what the work was last about to read.
func (f *flight[T]) where() string {
	if p := f.at.Load(); p != nil {
		return *p
	}
	return ""
}
