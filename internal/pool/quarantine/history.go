package quarantine

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// This file compares on which GPUs the same program crashes. A crash has two possible
// causes, so only programs that crash on one GPU and run well on its siblings are evidence
// against that GPU.

const (
	// failures is the fault of a GPU on which Value different programs crash that run well
	// on its siblings.
	failures health.Kind = "failed_tasks"
	// maxEnds bounds the runs of a program on a GPU that are kept, maxPrograms the programs of
	// a GPU, and maxTeams the teams of a program. endsTime is their age.
	maxEnds     = 20
	maxPrograms = 24
	maxTeams    = 4
	endsTime    = 7 * 24 * time.Hour
	// programChance is the greatest probability of a program's last crash, on a GPU that is
	// like its siblings, with which the program blames the GPU.
	programChance = 0.1
	// leastPrograms is the number of programs that must blame a GPU, and significance the
	// greatest probability of so many. leastOthers and significanceOfOthers are these numbers
	// without the programs of any one team.
	leastPrograms        = 3
	significance         = 0.01
	leastOthers          = 2
	significanceOfOthers = 0.1
)

const (
	endedWell = '.'
	crashed   = 'x'
)

// isBadExit reports whether a task ended as after a GPU fault: by abort, with which ROCm
// ends a process (134), by another crash signal, or by a signal from outside (137, 143), as
// in a build that was aborted or timed out. A failing test ends differently.
func isBadExit(status int) bool { return IsCrash(status) || status == 137 || status == 143 }

// IsCrash reports whether a process ended by SIGABRT, SIGBUS, SIGFPE or SIGSEGV.
func IsCrash(status int) bool { return slices.Contains([]int{134, 135, 136, 139}, status) }

// ProgramEnds records how the runs of one program on one GPU ended.
type ProgramEnds struct {
	Program string    `json:"program"`         // see Task
	Ends    string    `json:"ends"`            // a letter for each run, the last one last
	Teams   []string  `json:"teams,omitempty"` // of crashes, at most maxTeams, see Exit
	Last    time.Time `json:"last"`
	// Longest is the time of the longest good run, in seconds, LastGood the end of the last one,
	// and Stopped are the runs since that were stopped.
	Longest  float64   `json:"longest,omitempty"`
	LastGood time.Time `json:"last_good,omitzero"`
	Stopped  []Stop    `json:"stopped,omitempty"`
}

func (p *ProgramEnds) crashedLast() bool {
	return strings.HasSuffix(strings.TrimRight(p.Ends, string(hung)), string(crashed))
}

// lastCrashes counts the programs that crashed at their last run on the GPU.
func (g *GPU) lastCrashes() (n int) {
	for i := range g.Programs {
		if g.Programs[i].crashedLast() {
			n++
		}
	}
	return n
}

// countOutcome adds a run's end to its GPUs that are in service. It ignores a run of an
// unknown program, a run on all GPUs, which allows no comparison, and a GPU that a program
// outside of tasks uses.
func (r *Record) countOutcome(run Run) {
	if run.Exit == nil || run.Program == "" || len(run.GPUs) == len(r.GPUs) {
		return
	}
	longest := r.longest(run.Program)
	for _, u := range run.GPUs {
		g := r.Find(u.Name)
		if g == nil || g.State != InService || u.MemoryBefore != nil && *u.MemoryBefore >= ownersMemory {
			continue
		}
		p := g.takeProgram(run.Program, r.At)
		switch {
		case isStop(*run.Exit):
			p.addStop(run)
		case IsCrash(*run.Exit):
			p.add(crashed)
			if len(p.Teams) < maxTeams && !slices.Contains(p.Teams, run.Team) {
				p.Teams = append(slices.Clone(p.Teams), run.Team)
			}
		default:
			p.addGood(run, longest, r.At)
		}
		p.Last = r.At
		g.Programs = append(g.Programs, p)
	}
}

// takeProgram removes a program from the list, and the old programs.
func (g *GPU) takeProgram(program string, at time.Time) ProgramEnds {
	p := ProgramEnds{Program: program}
	g.Programs = slices.DeleteFunc(slices.Clone(g.Programs), func(o ProgramEnds) bool {
		if o.Program == program {
			p = o
		}
		return o.Program == program || at.Sub(o.Last).Abs() > endsTime
	})
	g.Programs = g.Programs[max(0, len(g.Programs)+1-maxPrograms):]
	return p
}

// blame counts the programs that blame a GPU, and the programs that crashed anywhere and
// could blame it.
type blame struct{ programs, able int }

// significant reports whether chance rarely makes so many programs blame a GPU.
func (b blame) significant(least int, greatest float64) bool {
	return b.programs >= least && binomialTail(b.able, b.programs, programChance) <= greatest
}

// ends counts the runs of a program on several GPUs.
type ends struct{ crashes, runs int }

func countEnds(letters string) ends {
	return ends{strings.Count(letters, string(crashed)), len(letters) - strings.Count(letters, string(hung))}
}

// programEnds sums up the runs of each program on all GPUs.
func (r *Record) programEnds() map[string]ends {
	all := map[string]ends{}
	for i := range r.GPUs {
		for k := range r.GPUs[i].Programs {
			p := &r.GPUs[i].Programs[k]
			n, here := all[p.Program], countEnds(p.Ends)
			all[p.Program] = ends{n.crashes + here.crashes, n.runs + here.runs}
		}
	}
	return all
}

// blame compares the last run of each program on a GPU with its runs on the siblings. Older
// runs here say little, because GPUs fail after years without a fault. Programs of a team
// that crashed here are left out. A program counts once, however often it ran. all is from
// programEnds.
func (g *GPU) blame(all map[string]ends, without *string) (b blame) {
	for i := range g.Programs {
		p := &g.Programs[i]
		if without != nil && (len(p.Teams) == maxTeams || slices.Contains(p.Teams, *without)) {
			continue
		}
		others, here := all[p.Program], countEnds(p.Ends)
		others.crashes, others.runs = others.crashes-here.crashes, others.runs-here.runs
		// Of one crash more in one run more, the probability that it is the run here.
		if float64(others.crashes+1)/float64(others.runs+1) > programChance {
			continue
		}
		switch {
		case p.crashedLast():
			b.programs, b.able = b.programs+1, b.able+1
		case others.crashes > 0:
			b.able++
		}
	}
	return b
}

// severalTeams reports whether the programs still blame the GPU without those of any one
// team. All tasks of unknown teams count as one team.
func (g *GPU) severalTeams(all map[string]ends) bool {
	for i := range g.Programs {
		for _, team := range g.Programs[i].Teams {
			if !g.blame(all, &team).significant(leastOthers, significanceOfOthers) {
				return false
			}
		}
	}
	return true
}

// signs lists the kinds of faults that programs cannot bring about, and that alone
// quarantine no GPU.
var signs = []health.Kind{health.CorrectableErrors, health.DeferredErrors, health.Replays, health.LinkErrors,
	health.Narrow,
	health.LinksDown}

// hardwareSign returns a measured sign of a GPU's hardware.
func (l Look) hardwareSign(name string) (f health.Fault, found bool) {
	for _, s := range l.GPUs {
		for _, f := range s.Faults {
			if s.Address() == name && slices.Contains(signs, f.Kind) {
				return f, true
			}
		}
	}
	return f, false
}

// compareOutcomes acts on GPUs on which programs crash that run well on siblings:
//
//	several teams | sign of the hardware | result
//	yes           | yes                  | a strike, as for other faults
//	yes           | no                   | quarantined for suspectTime, and no strike
//	no            | yes                  | a warning
//	no            | no                   | nothing, because one team can produce any numbers
//
// At most one GPU is quarantined for these numbers alone.
func (r *Record) compareOutcomes(l Look) {
	defer r.compareHangs(l)
	if !slices.ContainsFunc(r.GPUs, func(g GPU) bool { return g.Warning != nil || g.lastCrashes() >= leastPrograms }) {
		return // as nearly always, and without a sum
	}
	suspected := slices.ContainsFunc(r.GPUs, func(g GPU) bool { return g.State != InService && g.suspected() })
	all := r.programEnds()
	for i := range r.GPUs {
		g := &r.GPUs[i]
		g.Warning = nil
		b := g.blame(all, nil)
		if g.State != InService || !b.significant(leastPrograms, significance) {
			continue
		}
		f := health.Fault{Kind: failures, Value: float64(b.programs)}
		sign, signed := l.hardwareSign(g.Name)
		if signed {
			f.Signals = []string{describe(sign)}
		}
		several := l.Policy == Auto && g.severalTeams(all)
		switch {
		case several && signed:
			g.recordStrike(f, l.At)
		case several && !suspected:
			suspected = true
			g.Suspicions = append(g.recentSuspicions(l.At), l.At)
			g.quarantine(f, l.At)
		case signed:
			g.Warning = &f
			continue
		default:
			continue
		}
		g.Programs = nil // only new crashes quarantine it again
	}
}

// suspectTime is the probation of a GPU that is quarantined for crashes without a sign of
// its hardware. Each further suspicion within endsTime doubles it, up to 16 hours.
const suspectTime = time.Hour

// suspected reports whether the GPU is quarantined for crashes without a sign of its
// hardware.
func (g *GPU) suspected() bool {
	return g.Fault != nil && (g.Fault.Kind == failures || g.Fault.Kind == hangs) && len(g.Fault.Signals) == 0
}

// recentSuspicions returns the suspicions within endsTime.
func (g *GPU) recentSuspicions(at time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(g.Suspicions), func(s time.Time) bool { return at.Sub(s).Abs() > endsTime })
}

// WarningText returns the warnings about a GPU in words, and "" for none.
func (g *GPU) WarningText() string {
	texts := []string{"", g.Rise, ""}
	if g.State == InService {
		if g.Warning != nil {
			texts[0] = describe(*g.Warning) + "; run a program on it with a result that you know"
		}
		texts[2] = g.Memory.Text()
	}
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "; ")
}

// binomialTail returns the probability of at least k successes in n attempts.
func binomialTail(n, k int, p float64) (sum float64) {
	ways := 1.0 // to choose i of n
	for i := range n + 1 {
		if i >= k {
			sum += ways * math.Pow(p, float64(i)) * math.Pow(1-p, float64(n-i))
		}
		ways *= float64(n-i) / float64(i+1)
	}
	return sum
}
