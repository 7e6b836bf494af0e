package monitor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// users holds the users of the GPUs, as found by the last scan. A scrape reads no files of
// processes.
type users struct {
	scanner *usage.Scanner
	busy    atomic.Bool   // a scan has not returned
	maxAge  time.Duration // age at which a scan is no longer shown

	report cachedReport[usage.Result]
}

// readUsers scans once, unless the last scan has not returned.
func (m *Monitor) readUsers(ctx context.Context) {
	found := m.known.Load()
	if found == nil {
		return
	}
	if len(found.devices) == 0 || !m.users.busy.CompareAndSwap(false, true) {
		return
	}
	defer m.users.busy.Store(false)
	ctx, cancel := context.WithTimeout(ctx, api.Deadline)
	defer cancel()
	m.users.scanner.Scan(ctx, found.devices)
}

// lastUsers returns the last scan, by this process or from a report; nil if it is too old.
func (m *Monitor) lastUsers() *usage.Result {
	if m.users == nil {
		return nil
	}
	r := m.users.scanner.Last()
	if m.options.UsageReport != "" {
		r = m.users.report.read(m, "usage", usage.File(m.options.UsageReport))
	}
	if r == nil || m.now().Sub(r.At).Abs() > m.users.maxAge {
		return nil
	}
	return r
}

// ScanUsers scans the users of the GPUs once, for a program that does not Watch.
func (m *Monitor) ScanUsers(ctx context.Context) {
	m.searchInTime()
	m.readUsers(ctx)
}

// ReportUsers scans the users of the GPUs once and writes them to a file for an exporter
// without the rights to scan. The exporter serves the network without rights; this process
// has rights and serves nothing. Without a GPU it writes nothing, and the previous file
// soon expires.
func (m *Monitor) ReportUsers(ctx context.Context, path string) error {
	before := m.users.scanner.Last()
	m.ScanUsers(ctx)
	r := m.users.scanner.Last()
	if r == before {
		return nil
	}
	return usage.File(path).Write(m.root, *r)
}
