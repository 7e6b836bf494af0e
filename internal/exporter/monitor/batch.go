package monitor

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// slowRead is the age at which a batch gets more workers. One worker reads 64 GPUs in
	// less, and a second one only costs the thread that serves the answer its processor.
	slowRead = 4 * time.Millisecond
	// stall is when a worker that has taken no new work is given up: it may be
	// stuck in the kernel, and never come back.
	stall = 20 * time.Millisecond
)

// batch is work of which any piece may hang. One worker begins, for waking
// threads costs more than the work mostly takes; as many as there are processors
// join when it takes longer, and one that hangs is replaced.
type batch struct {
	work  []func()
	next  atomic.Int64
	timer *time.Timer
}

// run starts the work and does not wait for it. stop saves the help that is not
// needed any more.
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

func (b *batch) left() int64 { return int64(len(b.work)) - b.next.Load() }

// help adds the other processors.
func (b *batch) help() {
	for range min(b.left(), int64(runtime.NumCPU())-1) {
		go b.worker()
	}
	b.guard(b.next.Load())
}

// guard adds a worker when none has taken anything for a while.
func (b *batch) guard(before int64) {
	if b.left() <= 0 {
		return
	}
	time.AfterFunc(stall, func() {
		now := b.next.Load()
		if now == before && b.left() > 0 {
			go b.worker()
		}
		b.guard(now)
	})
}
