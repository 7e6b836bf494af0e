package monitor

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/deadline"
)

// DefaultRAS is the time between two readings of error counters, which access the hardware.
// It equals the distance of two points of the history, so that an idle GPU can suspend
// between them.
const DefaultRAS = recordEvery

// Poll reads error counters and limits of all known GPUs. It does not wait for a GPU that
// hangs.
func (m *Monitor) Poll() {
	m.mu.Lock()
	var readers []reader
	for _, r := range m.readers {
		readers = append(readers, r)
	}
	m.mu.Unlock()
	open := make([]*deadline.Work[[]amdgpu.Failure], len(readers))
	for i, r := range readers {
		open[i] = m.polls.Start(r.Device().Address(), func() []amdgpu.Failure {
			failures := r.Poll()
			m.countAll(r.Device(), failures)
			return failures
		})
	}
	late, stop := m.deadlines()
	defer stop()
	for i, w := range open {
		deadline.Wait(w, late(readers[i].Device().Sysfs))
	}
}

// Watch runs the timers until the context is done.
func (m *Monitor) Watch(ctx context.Context) {
	go m.kernel.follow(ctx, m.root, m.now)
	ras, points := time.Tick(m.options.RASInterval), time.Tick(recordEvery)
	var bandwidth, looks <-chan time.Time
	m.searchInTime()
	if m.options.PCIeBandwidth {
		bandwidth = time.Tick(trafficEvery)
		go m.readTraffic()
	}
	if m.users != nil && m.options.UsageReport == "" {
		looks = time.Tick(m.options.UsageInterval)
		go m.readUsers(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
			go m.readUsers(ctx)
		case <-ras:
			m.Poll()
		case <-bandwidth:
			go m.readTraffic()
		case <-points:
			m.Record()
		}
	}
}

// Reload makes the next snapshot search for GPUs and open all their files again, including
// files that were absent. Counters are kept. It returns at once, even if a GPU hangs.
func (m *Monitor) Reload() {
	m.refresh.Store(true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.readers {
		r.Reopen()
	}
}

// Reloads calls Reload at each signal.
func (m *Monitor) Reloads(stop context.Context, again <-chan os.Signal, logs *log.Logger) {
	for {
		select {
		case <-stop.Done():
			return
		case <-again:
			m.Reload()
			logs.Print("the next scrape opens everything again")
		}
	}
}
