package quarantine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// Times of decisions, which docs/explanation/gpu-health.md lists. Heat mostly passes, and a
// sensor near its limit must not make the worker flap, so a critical score must last. Most
// first faults are driver states that end within minutes. Each return of a flapping GPU can
// fail a build, so the time doubles and ends with a manual return.
const (
	// criticalTime is how long a GPU must be critical by its score alone, such as when it
	// is hot, before it is quarantined.
	criticalTime = 5 * time.Minute
	// probationTime is how long a GPU must be healthy before it returns, after its first
	// fault within strikeTime. Each further fault doubles it.
	probationTime = 5 * time.Minute
	strikeTime    = 24 * time.Hour
	// maxStrikes is the number of strikes within strikeTime after which a GPU still returns
	// automatically.
	maxStrikes = 4
	// lookGap is the longest time between two looks for which the state of a GPU is assumed
	// unchanged. Looks come every few seconds.
	lookGap = time.Minute
)

// Reading describes one GPU as its owner reports it.
type Reading struct {
	gpu.Slot
	Up     bool // it answered, or sleeps
	State  health.State
	Faults []health.Fault
	// Memory and Total are bytes of the GPU's memory, used and installed. They are nil if they
	// or their owners are not known.
	Memory, Total *float64
	// Partition is set for a part of a card. Its Memory is only that of Processes, because the
	// driver counts the rest for the whole card.
	Partition bool
	// Processes have memory of the GPU, as of UsersAt.
	Processes  []usage.Process
	UsersAt    time.Time
	Integrated bool // an APU
	Node       Node // the last answer of its node; "" if it was not opened
	// Software is from SoftwareOf. nil: as at the last look.
	Software map[string]string
	Users    []string // containers that have it open, or had
	Open     []string // containers that have it open now; nil if not known
}

// Look holds the input of one decision.
type Look struct {
	At           time.Time
	Policy       Policy
	Boot, Driver string
	Unknown      string // why the GPUs are not known; "" if GPUs is complete
	GPUs         []Reading
	// Tasks have GPUs. TasksUnknown reports that they could not be read. Exits are from
	// containers that had GPUs at the last look.
	Tasks        []Task
	TasksUnknown bool
	Exits        map[string]Exit
	Holders      map[string]string // by GPU: the current or last holder of its lease
	EngineLeases []string          // GPUs that runs, pods and containers of other engines lease now
	HealthCheck  string            // the option gpu-health-check; "" for none
	HealthChecks []HealthCheck     // of this unit's GPUs: the last ended one of each, and those that run
}

// Decide returns the record after a look. Unknown is not unhealthy: a look without data
// quarantines no GPU, and returns none to service.
func Decide(before Record, l Look) Record {
	r := before.clone()
	r.At, r.Policy, r.Boot, r.Driver, r.Unknown = l.At, l.Policy, l.Boot, l.Driver, l.Unknown
	since := l.At.Sub(before.At)
	broken := since < 0 || since > lookGap || l.Unknown != ""
	reloaded := l.Boot != before.Boot || l.Driver != before.Driver
	for i := range r.GPUs {
		g := &r.GPUs[i]
		g.PendingHealthCheck = nil
		if reloaded {
			g.Acknowledged = nil
			g.Idle, g.DirtySince, g.Memory = nil, nil, nil
			g.Programs = nil // the digests have another key after a boot
		}
		if broken || reloaded { // the time between was not observed
			g.CriticalSince = nil
			if g.HealthySince != nil {
				g.HealthySince = &l.At
			}
		}
		g.applyPolicy(l)
	}
	if l.Unknown != "" {
		return r
	}
	r.updateGPUs(l)
	r.updateRuns(l)
	r.compareOutcomes(l)
	for i := range r.GPUs {
		r.GPUs[i].KnownFaults = r.GPUs[i].taskFaults(l)
	}
	return r
}

// applyPolicy ends quarantines that the policy does not allow.
func (g *GPU) applyPolicy(l Look) {
	if g.State == InService || l.Policy == Auto || l.Policy == Manual && g.QuarantinedBy == ByHand {
		return
	}
	g.move(InService, "gpu-quarantine="+string(l.Policy), l.At)
}

// updateGPUs updates all GPUs from a look that saw them.
func (r *Record) updateGPUs(l Look) {
	served := len(r.GPUs) > 0
	for _, g := range r.GPUs {
		served = served && (g.State == InService || g.QuarantinedBy == ByHand)
	}
	var now []GPU
	for _, s := range l.GPUs {
		known := r.Find(s.Address())
		if known == nil {
			known = &GPU{Ref: Ref{Name: s.Address()}, State: InService, Since: l.At, Reason: "seen first"}
		}
		g := *known
		g.updateMemory(s, l)
		g.Index, g.ActiveFaults = s.Index, s.activeFaults(g)
		if f, is := g.leak(s, l); is {
			g.ActiveFaults = append(g.ActiveFaults, f)
		}
		if s.GFX != "" {
			g.GFX = s.GFX
		}
		g.countResets(s, l.At)
		g.step(l, s.State)
		if !l.TasksUnknown {
			g.OpenIn = s.openElsewhere(l)
		}
		now = append(now, g)
	}
	for _, g := range r.GPUs {
		here := func(s Reading) bool { return s.Address() == g.Name }
		// Partitions disappear when a GPU is partitioned differently, which is not a fault.
		board := func(s Reading) bool { return boardOf(s.Address()) == boardOf(g.Name) }
		if slices.ContainsFunc(l.GPUs, here) || slices.ContainsFunc(l.GPUs, board) {
			continue
		}
		if l.Policy != Auto && g.QuarantinedBy != ByHand {
			continue
		}
		g.ActiveFaults = []health.Fault{{Kind: missing}}
		g.step(l, health.Critical)
		now = append(now, g)
	}
	r.GPUs = now
	if served {
		r.findCommonCause(l.At)
	}
}

// boardOf returns the PCI address in a name, which partitions of one GPU share.
func boardOf(name string) string {
	board, _, _ := strings.Cut(name, "-")
	return board
}

// step updates one GPU from a look that saw it, or found it missing.
func (g *GPU) step(l Look, state health.State) {
	var fresh []health.Fault
	g.Acknowledged, fresh = splitAcknowledged(g.Acknowledged, g.ActiveFaults)
	if l.Policy != Auto || g.QuarantinedBy == ByHand {
		g.CriticalSince = nil
		return
	}
	gate := slices.IndexFunc(fresh, isGate)
	low := gate < 0 && state == health.Critical && len(fresh) > 0
	switch {
	case !low:
		g.CriticalSince = nil
	case g.CriticalSince == nil:
		g.CriticalSince = &l.At
	}
	stood := low && l.At.Sub(*g.CriticalSince) >= criticalTime
	switch {
	case (gate >= 0 || stood) && g.State == InService:
		g.recordStrike(fresh[max(gate, 0)], l.At)
	case (gate >= 0 || stood) && g.State == OnProbation:
		g.quarantine(fresh[max(gate, 0)], l.At)
	case gate >= 0 || low:
		if g.State == OnProbation { // not healthy, but not for long yet
			g.HealthySince = &l.At
		}
	case g.State == Quarantined && !g.ManualReturn:
		g.move(OnProbation, "healthy again: "+g.Reason, l.At)
		g.HealthySince = &l.At
	case g.State == OnProbation:
		g.endProbation(l)
	}
}

// recordStrike quarantines for a fault that is a strike: a fault in service, which can fail
// a build, or a failed health check.
func (g *GPU) recordStrike(f health.Fault, at time.Time) {
	g.Strikes = append(g.RecentStrikes(at), at)
	g.quarantine(f, at)
	g.ManualReturn = len(g.Strikes) > maxStrikes
}

// quarantine removes the GPU from tasks. During probation no task has it, so a fault is not
// a strike then: a flapping GPU stays in quarantine, and returns automatically once it is
// stable.
func (g *GPU) quarantine(f health.Fault, at time.Time) {
	g.Times++
	g.QuarantinedBy, g.Fault, g.CommonCause = ByHealth, &f, false
	g.move(Quarantined, describe(f), at)
}

// RecentStrikes returns the strikes within strikeTime.
func (g *GPU) RecentStrikes(at time.Time) (recent []time.Time) {
	for _, s := range g.Strikes {
		if at.Sub(s).Abs() < strikeTime {
			recent = append(recent, s)
		}
	}
	return recent
}

// probation returns how long the GPU must be healthy before it returns.
func (g *GPU) probation() time.Duration {
	if g.suspected() {
		return suspectTime << max(0, min(len(g.Suspicions), 5)-1)
	}
	return probationTime << max(0, min(len(g.Strikes), maxStrikes)-1)
}

// endProbation returns a GPU to service after its probation and its health check.
func (g *GPU) endProbation(l Look) {
	if g.HealthySince == nil {
		g.HealthySince = &l.At
	}
	switch {
	case l.At.Sub(*g.HealthySince) < g.probation():
	case l.HealthCheck != "":
		g.awaitHealthCheck(l)
	default:
		g.move(InService, fmt.Sprintf("healthy for %s", g.probation()), l.At)
	}
}

// findCommonCause detects a common cause: all GPUs, on several boards, were in service and
// are quarantined by this look. This says nothing about any one of them, so it is not a
// strike.
func (r *Record) findCommonCause(at time.Time) {
	boards := map[string]bool{}
	for _, g := range r.GPUs {
		if g.QuarantinedBy == ByHand {
			continue
		}
		if g.State != Quarantined || !g.Since.Equal(at) {
			return
		}
		boards[boardOf(g.Name)] = true
	}
	if len(boards) < 2 {
		return
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.QuarantinedBy == ByHealth {
			g.CommonCause, g.ManualReturn, g.Strikes = true, false, slices.Clone(g.Strikes[:len(g.Strikes)-1])
			g.Reason = AllAtOnce + ": " + g.Reason
		}
	}
}
