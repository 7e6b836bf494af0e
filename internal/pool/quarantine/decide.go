package quarantine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/gpu/health"
)

// The times. docs/explanation/gpu-health.md has their reasons.
const (
	// criticalTime is how long a GPU has to be critical by its score alone, as when it
	// is hot, before it is withheld.
	criticalTime = 5 * time.Minute
	// provingTime is how long a GPU has to be well before it is back, after its first
	// fault within strikeTime. Each further one doubles it.
	provingTime = 5 * time.Minute
	strikeTime  = 24 * time.Hour
	// maxStrikes within strikeTime are the last that a GPU is returned from by itself.
	maxStrikes = 4
	// lookGap is the longest time between two looks for which a GPU counts as it was
	// at both. Looks come every resource.JobPeriod.
	lookGap = time.Minute
)

// Seen is one GPU as the exporter tells of it.
type Seen struct {
	Name   string // see gpu.Slot
	Index  int
	GFX    string // "" where KFD does not tell
	Up     bool   // it answered, or sleeps
	State  health.State
	Faults []health.Fault
	// Memory and Total are bytes of the GPU's own memory, in use and there; nil where they
	// are not known, or several partitions share them.
	Memory, Total *float64
	Node          Node     // how its node answered last; "" where nobody asked
	Users         []string // containers that have it open, or had
	Open          []string // those that have it open now; nil where that is not known
}

// Look is what is known at one time.
type Look struct {
	At           time.Time
	Policy       Policy
	Boot, Driver string
	Unknown      string // why nothing is known of the GPUs; "" where GPUs are all that there are
	GPUs         []Seen
	// Tasks have GPUs; TasksUnknown says that it can't be told which do. Exits are of
	// containers that had some at the last look.
	Tasks        []Task
	TasksUnknown bool
	Exits        map[string]Exit
	Holders      map[string]string // by GPU: who leases it, or did last
	Proof        string            // the option gpu-proof, "" for none
	Proofs       []Proof           // of this unit's GPUs: the last that ended of each, and those that run
}

// Decide is what follows from a look. What is unknown is not unhealthy: a look that
// sees nothing withholds nothing. It returns nothing either.
func Decide(before Record, l Look) Record {
	r := before.clone()
	r.At, r.Policy, r.Boot, r.Driver, r.Unknown = l.At, l.Policy, l.Boot, l.Driver, l.Unknown
	since := l.At.Sub(before.At)
	broken := since < 0 || since > lookGap || l.Unknown != ""
	anew := l.Boot != before.Boot || l.Driver != before.Driver
	for i := range r.GPUs {
		g := &r.GPUs[i]
		g.Await = nil
		if anew {
			g.Acknowledged = nil
			g.Idle, g.Dirty = nil, nil
		}
		if broken || anew { // nobody saw it meanwhile
			g.Critical = nil
			if g.Well != nil {
				g.Well = &l.At
			}
		}
		g.obey(l)
	}
	if l.Unknown != "" {
		return r
	}
	r.take(l)
	r.follow(l)
	r.compare()
	for i := range r.GPUs {
		r.GPUs[i].Told = r.GPUs[i].wrong(l)
	}
	return r
}

// obey ends what the policy does not allow.
func (g *GPU) obey(l Look) {
	if g.State == InService || l.Policy == Auto || l.Policy == Manual && g.By == ByHand {
		return
	}
	g.move(InService, "gpu-quarantine="+string(l.Policy), l.At)
}

// take goes through the GPUs of a look that saw them.
func (r *Record) take(l Look) {
	served := len(r.GPUs) > 0
	for _, g := range r.GPUs {
		served = served && (g.State == InService || g.By == ByHand)
	}
	var now []GPU
	for _, s := range l.GPUs {
		known := r.Find(s.Name)
		if known == nil {
			known = &GPU{Name: s.Name, State: InService, Since: l.At, Why: "seen first"}
		}
		g := *known
		g.memory(s, l)
		g.Index, g.Standing = s.Index, s.standing(g)
		if f, is := g.leak(s, l); is {
			g.Standing = append(g.Standing, f)
		}
		if s.GFX != "" {
			g.GFX = s.GFX
		}
		g.step(l, s.State == health.Critical)
		if !l.TasksUnknown {
			g.OpenIn = s.openElsewhere(l)
		}
		now = append(now, g)
	}
	for _, g := range r.GPUs {
		here := func(s Seen) bool { return s.Name == g.Name }
		// Partitions go when a GPU is divided anew: that is no fault.
		board := func(s Seen) bool { return boardOf(s.Name) == boardOf(g.Name) }
		if slices.ContainsFunc(l.GPUs, here) || slices.ContainsFunc(l.GPUs, board) {
			continue
		}
		if l.Policy != Auto && g.By != ByHand {
			continue
		}
		g.Standing = []health.Fault{{Kind: gone}}
		g.step(l, true)
		now = append(now, g)
	}
	r.GPUs = now
	if served {
		r.together(l.At)
	}
}

// boardOf is the PCI address in a name: partitions of one GPU have the same.
func boardOf(name string) string {
	board, _, _ := strings.Cut(name, "-")
	return board
}

// step is one GPU at a look that saw it, or saw that it is gone.
func (g *GPU) step(l Look, critical bool) {
	var fresh []health.Fault
	g.Acknowledged, fresh = part(g.Acknowledged, g.Standing)
	if l.Policy != Auto || g.By == ByHand {
		g.Critical = nil
		return
	}
	gate := slices.IndexFunc(fresh, isGate)
	low := gate < 0 && critical && len(fresh) > 0
	switch {
	case !low:
		g.Critical = nil
	case g.Critical == nil:
		g.Critical = &l.At
	}
	stood := low && l.At.Sub(*g.Critical) >= criticalTime
	switch {
	case (gate >= 0 || stood) && g.State == InService:
		g.strike(fresh[max(gate, 0)], l.At)
	case (gate >= 0 || stood) && g.State == Proving:
		g.withhold(fresh[max(gate, 0)], l.At)
	case gate >= 0 || low:
		if g.State == Proving { // not well, though not for long yet
			g.Well = &l.At
		}
	case g.State == Withheld && !g.Person:
		g.move(Proving, "well again: "+g.Why, l.At)
		g.Well = &l.At
	case g.State == Proving:
		g.prove(l)
	}
}

// strike withholds for a fault that counts: one in service, which can cost a build, or a
// failed proof.
func (g *GPU) strike(f health.Fault, at time.Time) {
	g.Strikes = append(g.recent(at), at)
	g.withhold(f, at)
	g.Person = len(g.Strikes) > maxStrikes
}

// withhold takes the GPU from tasks. On trial no task has it, so a fault there is no
// strike: a GPU that flaps stays out, and comes back by itself once it stands still.
func (g *GPU) withhold(f health.Fault, at time.Time) {
	g.Times++
	g.By, g.Fault, g.Together = ByHealth, &f, false
	g.move(Withheld, inWords(f), at)
}

// recent are the strikes that still count.
func (g *GPU) recent(at time.Time) (recent []time.Time) {
	for _, s := range g.Strikes {
		if at.Sub(s).Abs() < strikeTime {
			recent = append(recent, s)
		}
	}
	return recent
}

// trial is how long the GPU has to be well to be returned.
func (g *GPU) trial() time.Duration {
	return provingTime << max(0, min(len(g.Strikes), maxStrikes)-1)
}

func (g *GPU) prove(l Look) {
	if g.Well == nil {
		g.Well = &l.At
	}
	switch {
	case l.At.Sub(*g.Well) < g.trial():
	case l.Proof != "":
		g.await(l)
	default:
		g.move(InService, fmt.Sprintf("well for %s", g.trial()), l.At)
	}
}

// together finds one cause where all GPUs, of several boards, were in service and are
// withheld from this look on. That is no word against any one of them, so it is no strike.
func (r *Record) together(at time.Time) {
	boards := map[string]bool{}
	for _, g := range r.GPUs {
		if g.By == ByHand {
			continue
		}
		if g.State != Withheld || !g.Since.Equal(at) {
			return
		}
		boards[boardOf(g.Name)] = true
	}
	if len(boards) < 2 {
		return
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.By == ByHealth {
			g.Together, g.Person, g.Strikes = true, false, slices.Clone(g.Strikes[:len(g.Strikes)-1])
			g.Why = AllAtOnce + ": " + g.Why
		}
	}
}
