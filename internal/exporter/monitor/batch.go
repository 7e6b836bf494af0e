package monitor

import (
	"runtime"
	"sync/atomic"
	"time"
)

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
