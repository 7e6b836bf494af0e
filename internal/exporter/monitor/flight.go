package monitor

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// flights runs work that may hang in the kernel, where nothing can cancel it. At most one
// piece of work is outstanding for each key. A GPU that hangs costs one thread, however
// often it is read.
type flights[T any] struct {
	mu   sync.Mutex
	open map[flightKey]*flight[T]
}

// flightKey identifies a partition by its device's directory. The zero value identifies the
// search.
type flightKey struct {
	dir       string
	partition int
}

type flight[T any] struct {
	done  chan struct{} // closed when value is there
	value T
	late  atomic.Bool // a caller reached its deadline
}

func newFlights[T any]() *flights[T] { return &flights[T]{open: map[flightKey]*flight[T]{}} }

// start begins the work, or joins the outstanding work.
func (s *flights[T]) start(key flightKey, work func() T) *flight[T] {
	f, run := s.join(key, work)
	if run != nil {
		go run()
	}
	return f
}

// join returns the outstanding work, or new work that the caller must run once.
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

// wait returns the result, or false at the deadline. After one missed deadline, later
// callers do not wait for the same work, and its result is too old to be shown.
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
	case <-f.done: // both at the same time
		return f.value, true
	default:
		f.late.Store(true)
		return none, false
	}
}

// late reports whether a caller reached its deadline on work that is still outstanding.
func (s *flights[T]) late(key flightKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.open[key]
	return f != nil && f.late.Load()
}

const (
	// slowRead is the age at which a batch gets more workers. One worker reads 64 GPUs in
	// less time. A second worker takes a processor from the thread that serves the answer.
	slowRead = 4 * time.Millisecond
	// stall is the time without progress after which a worker is replaced, because it may
	// hang in the kernel forever.
	stall = 20 * time.Millisecond
)

// batch runs pieces of work that may each hang. It begins with one worker, because waking
// threads usually costs more than the work. One worker per processor joins if the work
// takes longer, and a worker that hangs is replaced.
type batch struct {
	work  []func()
	next  atomic.Int64
	timer *time.Timer
}

// run starts the work and does not wait for it. The caller must call stop, which cancels
// help that is no longer needed.
func (b *batch) run() {
	if len(b.work) == 0 {
		return
	}
	go b.worker()
	if len(b.work) > 1 {
		b.timer = time.AfterFunc(slowRead, b.help)
	}
}

func (b *batch) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

func (b *batch) worker() {
	for {
		i := b.next.Add(1) - 1
		if i >= int64(len(b.work)) {
			return
		}
		b.work[i]()
	}
}

func (b *batch) remaining() int64 { return int64(len(b.work)) - b.next.Load() }

// help adds workers for the other processors.
func (b *batch) help() {
	for range min(b.remaining(), int64(runtime.NumCPU())-1) {
		go b.worker()
	}
	b.guard(b.next.Load())
}

// guard adds a worker whenever no work was started during stall.
func (b *batch) guard(before int64) {
	if b.remaining() <= 0 {
		return
	}
	time.AfterFunc(stall, func() {
		now := b.next.Load()
		if now == before && b.remaining() > 0 {
			go b.worker()
		}
		b.guard(now)
	})
}
