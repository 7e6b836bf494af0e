// Package deadline bounds the wait for work that may hang in the kernel, where nothing can
// cancel it: readings of a GPU and of its users. It ends no work, and reads nothing itself.
package deadline

import (
	"sync"
	"sync/atomic"
)

// Group runs work with at most one piece outstanding for each key. A GPU that hangs costs
// one thread, however often it is read. The zero value is empty.
type Group[K comparable, T any] struct {
	mu   sync.Mutex
	open map[K]*Work[T]
}

// Work is a piece of work that has begun.
type Work[T any] struct {
	done  chan struct{} // closed when value is there
	value T
	late  atomic.Bool // a caller reached its deadline
}

// Start begins the work, or joins the outstanding work.
func (g *Group[K, T]) Start(key K, work func() T) *Work[T] {
	w, run := g.Join(key, work)
	if run != nil {
		go run()
	}
	return w
}

// Join returns the outstanding work with a nil run, or new work that the caller must run
// once.
func (g *Group[K, T]) Join(key K, work func() T) (w *Work[T], run func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.open[key]; w != nil {
		return w, nil
	}
	if g.open == nil {
		g.open = map[K]*Work[T]{}
	}
	w = &Work[T]{done: make(chan struct{})}
	g.open[key] = w
	return w, func() {
		w.value = work()
		g.mu.Lock()
		delete(g.open, key)
		g.mu.Unlock()
		close(w.done)
	}
}

// Outstanding reports whether work has begun and not ended.
func (g *Group[K, T]) Outstanding(key K) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open[key] != nil
}

// Late reports whether a caller reached its deadline on work that is still outstanding.
func (g *Group[K, T]) Late(key K) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.open[key]
	return w != nil && w.late.Load()
}

// Wait returns the result, or false when the deadline's channel is ready. After one missed
// deadline, later callers do not wait for the same work, and its result is too old to be
// shown.
func Wait[T, D any](w *Work[T], deadline <-chan D) (T, bool) {
	var none T
	if w.late.Load() {
		return none, false
	}
	select {
	case <-w.done:
		return w.value, true
	case <-deadline:
	}
	select {
	case <-w.done: // both at the same time
		return w.value, true
	default:
		w.late.Store(true)
		return none, false
	}
}
