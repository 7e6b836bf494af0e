// Package series converts the monitor's snapshots to Prometheus' metrics, with
// github.com/prometheus/client_golang. It reads no files.
package series

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Gatherer implements prometheus.TransactionalGatherer. Families and labels are made once
// and their numbers are set in place, so a scrape locks them until it is done.
type Gatherer struct {
	look func() monitor.Snapshot
	with Options

	mu    sync.Mutex
	sheet *sheet
	own   *rows
	gpus  map[labels]*rows
}

// Options selects further series.
type Options struct {
	Version string // label of the exporter's version
	Page    string // URL of the status page, "" if it is unknown
	DCGM    bool   // repeat values under the names and units of NVIDIA's exporter
}

// labels identify a GPU in each of its series.
type labels struct{ index, pci, uuid string }

// New returns a gatherer of the snapshots that look returns.
func New(look func() monitor.Snapshot, with Options) *Gatherer {
	s := newSheet()
	return &Gatherer{look: look, with: with, sheet: s, own: &rows{sheet: s}, gpus: map[labels]*rows{}}
}

// Gather implements prometheus.TransactionalGatherer.
func (g *Gatherer) Gather() ([]*dto.MetricFamily, func(), error) {
	snapshot := g.look()
	g.mu.Lock()
	g.fill(&snapshot)
	return g.sheet.filled(), g.mu.Unlock, nil
}

func (g *Gatherer) fill(s *monitor.Snapshot) {
	for _, f := range g.sheet.families {
		f.Metric = f.Metric[:0]
	}
	seen := make(map[labels]bool, len(s.GPUs))
	for i := range s.GPUs {
		gpu := &s.GPUs[i]
		l := labels{itoa(gpu.Slot.Index), gpu.Slot.PCI, gpu.State.Identity.UUID}
		seen[l] = true
		r := g.gpus[l]
		if r == nil {
			r = &rows{sheet: g.sheet, gpu: []*dto.LabelPair{g.sheet.pair("gpu", l.index),
				g.sheet.pair("pci_bus_id", l.pci), g.sheet.pair("uuid", l.uuid)}}
			g.gpus[l] = r
		}
		putGPU(r, gpu, s)
		if g.with.DCGM {
			putDCGM(r, gpu)
		}
		r.end()
	}
	for l := range g.gpus {
		if !seen[l] {
			delete(g.gpus, l)
		}
	}
	g.putOwn(g.own, s)
	g.own.end()
}

// energyShown limits how long the energy of an ended task is shown: no scrape misses it.
const energyShown = 10 * time.Minute

// putOwn adds the series without a GPU. Counters of leases remain when the report is no
// longer written, because its age is shown too.
func (g *Gatherer) putOwn(r *rows, s *monitor.Snapshot) {
	r.put(buildInfo, 1, g.with.Version, runtime.Version())
	if g.with.Page != "" {
		r.put(pageInfo, 1, g.with.Page)
	}
	r.put(gpus, float64(len(s.GPUs)))
	if d := s.Disk; d != nil {
		r.put(diskSize, d.Size)
		r.put(diskFree, d.Free)
	}
	if l := s.Leases; l != nil {
		r.put(leaseGranted, float64(l.Counters.Granted))
		r.put(leaseRefused, float64(l.Counters.Busy), "busy")
		r.put(leaseRefused, float64(l.Counters.Impossible), "impossible")
		r.put(leaseHeldSeconds, l.Counters.HeldSeconds)
		r.put(leaseReportAge, max(s.At.Sub(l.At).Seconds(), 0))
	}
	if v := s.Service; v != nil {
		r.put(serviceAge, max(s.At.Sub(v.At).Seconds(), 0))
		for _, verdict := range []quarantine.Verdict{quarantine.Infrastructure, quarantine.TaskCaused} {
			r.put(taskVerdicts, float64(v.Verdicts[verdict]), string(verdict))
		}
	}
	if t := s.Tasks; t != nil {
		for _, kind := range slices.Sorted(maps.Keys(t.Counts)) {
			r.put(endedTasks, float64(t.Counts[kind]), kind)
		}
		for _, e := range t.Entries {
			if e.Energy != nil && s.At.Sub(e.Ended) < energyShown {
				r.put(taskEnergy, e.Energy.Joules, e.Handle, strconv.FormatBool(e.Energy.Estimate))
			}
		}
	}
	if u := s.Users; u != nil {
		r.put(usageLeftOut, float64(u.Left.Limit), "limit")
		r.put(usageLeftOut, float64(u.Left.Namespace), "namespace")
		r.put(usageLeftOut, float64(u.Left.Unreadable), "unreadable")
		r.put(usageSeconds, u.Took.Seconds())
	}
	if m := s.Module; m.Running != "" {
		r.put(driverMatch, oneIf(m.Same), m.Running, m.Selected)
	}
	for _, e := range s.Reports {
		r.put(readErrors, e.Count, e.GPU, e.File, e.Errno)
	}
}

// putKnown adds a value if it is known.
func (r *rows) putKnown(f *Family, n amdgpu.Number, labels ...string) {
	if n.Known {
		r.put(f, n.Value, labels...)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
