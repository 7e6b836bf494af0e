package quarantine

import (
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// This file compares on which GPUs a program has to be stopped. A build that its user aborts
// ends before its usual time, so only a run that was stopped late can have hung.

const (
	// hangs is the fault of a GPU on which Value runs of a program in a row hung.
	hangs health.Kind = "hung_tasks"

	hung = 'h'
	// maxStopped bounds the stopped runs that are kept since the last good end.
	maxStopped = 8
	// lateFactor is the shortest time of a run that hung, in times of the longest good run. It is
	// lateLeast seconds longer at least, because a look sees an end some time later.
	lateFactor, lateLeast = 1.5, 60
	// A warning and a quarantine need so many hung runs in a row, and at most this probability
	// that all were there if the runs that hung are spread over the GPUs by chance. elsewhere is
	// the probability for programs that hang on other GPUs as well.
	warnHangs, outHangs              = 2, 3
	warnChance, outChance, elsewhere = .05, .005, 1e-6
	// ownersMemory is the memory of a GPU, in bytes and without a task, with which its ends are no
	// evidence: a program outside of tasks has it.
	ownersMemory = 1 << 30
)

// Stop is a run that was stopped from outside.
type Stop struct {
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`
	StepHash string    `json:"step_hash,omitempty"`
}

func (s Stop) ended() time.Time { return s.Began.Add(time.Duration(s.Seconds * float64(time.Second))) }

// isStop reports whether a task was stopped: by timeout(1), SIGKILL or SIGTERM.
func isStop(status int) bool { return slices.Contains([]int{124, 137, 143}, status) }

// addStop adds a stopped run.
func (p *ProgramEnds) addStop(run Run) {
	p.Stopped = append(slices.Clone(p.Stopped), Stop{run.Began, run.seconds(), run.StepHash})
	p.Stopped = p.Stopped[max(0, len(p.Stopped)-maxStopped):]
}

// addGood adds a good run, after which earlier hangs are no longer in a row.
func (p *ProgramEnds) addGood(run Run, longest float64, at time.Time) {
	for range hungOf(p.Stopped, longest) {
		p.add(hung)
	}
	p.add(endedWell)
	p.Stopped, p.LastGood, p.Longest = nil, at, max(p.Longest, run.seconds())
}

func (p *ProgramEnds) add(letter rune) {
	p.Ends += string(letter)
	p.Ends = p.Ends[max(0, len(p.Ends)-maxEnds):]
}

// seconds returns the time of a run that ended.
func (run Run) seconds() float64 {
	if run.Ended == nil {
		return 0
	}
	return max(0, run.Ended.Sub(run.Began).Seconds())
}

// avoidHung adds the GPUs on which a step hung, or seems to hang now: the next attempt can begin
// before its end is seen.
func (r *Record) avoidHung(add func(gpu, stepHash string, ended time.Time)) {
	for _, run := range r.Runs {
		if run.Ended == nil {
			run.Ended = &r.At
		}
		if (run.Exit == nil || isStop(*run.Exit)) && isLate(run.seconds(), r.longest(run.Program)) {
			for _, u := range run.GPUs {
				add(u.Name, run.StepHash, *run.Ended)
			}
		}
	}
	for _, g := range r.GPUs {
		for _, p := range g.Programs {
			if len(p.Stopped) == 0 {
				continue
			}
			for _, s := range hungOf(p.Stopped, r.longest(p.Program)) {
				add(g.Name, s.StepHash, s.ended())
			}
		}
	}
}

// hungOf returns the runs that were stopped late. Without a good run none was.
func hungOf(stopped []Stop, longest float64) []Stop {
	return slices.DeleteFunc(slices.Clone(stopped), func(s Stop) bool { return !isLate(s.Seconds, longest) })
}

// isLate reports whether a run of a program took longer than its good ones.
func isLate(seconds, longest float64) bool {
	return longest > 0 && seconds > max(lateFactor*longest, longest+lateLeast)
}

// longest returns the time of the longest good run of a program on any GPU.
func (r *Record) longest(program string) (seconds float64) {
	for i := range r.GPUs {
		for k := range r.GPUs[i].Programs {
			if p := &r.GPUs[i].Programs[k]; p.Program == program {
				seconds = max(seconds, p.Longest)
			}
		}
	}
	return seconds
}

// suspicion is the evidence of hung runs against a GPU.
type suspicion struct {
	runs   int
	chance float64 // that all were on this GPU by chance
	well   bool    // since the first of them, siblings ran the program well
	recent bool    // and before the last of them was judged
	alone  bool    // no run hung on a sibling
}

// excludesChance reports whether the evidence quarantines the GPU.
func (s suspicion) excludesChance() bool {
	return s.recent && s.runs >= outHangs && (s.alone && s.chance <= outChance || s.chance <= elsewhere)
}

// suspicionOf returns the strongest evidence: the hung runs in a row of one program, or of all
// programs since the last good end on the GPU. New code may hang everywhere, so siblings must
// have run the program well since the first of them, or for several programs, any.
func (r *Record) suspicionOf(g *GPU) suspicion {
	best, together := suspicion{chance: 1}, suspicion{chance: 1, alone: true}
	var lastGood time.Time
	for _, p := range g.Programs {
		lastGood = latest(lastGood, p.LastGood)
	}
	var all []Stop
	programs := 0
	for i := range g.Programs {
		p := &g.Programs[i]
		if len(p.Stopped) == 0 {
			continue
		}
		stopped := hungOf(p.Stopped, r.longest(p.Program))
		if len(stopped) == 0 {
			continue
		}
		if one := r.chanceOf(g, p.Program, stopped); one.well && one.runs >= warnHangs && one.chance < best.chance {
			best = one
		}
		stopped = slices.DeleteFunc(stopped, func(s Stop) bool { return s.ended().Before(lastGood) })
		if one := r.chanceOf(g, p.Program, stopped); one.runs > 0 && one.alone {
			together.runs, together.chance = together.runs+one.runs, together.chance*one.chance
			all, programs = append(all, stopped...), programs+1
		}
	}
	if programs > 1 && together.runs >= outHangs && together.chance < best.chance {
		together.well, together.recent = r.ranWell(g, "", all)
		best = together
	}
	return best
}

// chanceOf compares hung runs of a program on a GPU with all its runs.
func (r *Record) chanceOf(g *GPU, program string, here []Stop) (s suspicion) {
	longest, hangs, runs := r.longest(program), 0, 0
	for k := range r.GPUs {
		for i := range r.GPUs[k].Programs {
			if q := &r.GPUs[k].Programs[i]; q.Program == program {
				late := len(hungOf(q.Stopped, longest))
				hangs += strings.Count(q.Ends, string(hung)) + late
				runs += len(q.Ends) + late
			}
		}
	}
	s = suspicion{runs: len(here), chance: allOf(len(here), hangs, runs), alone: hangs == len(here)}
	s.well, s.recent = r.ranWell(g, program, here)
	return s
}

// ranWell reports whether a program, or any for "", ended well on a sibling since the begin of
// the first run, and before the last one was judged.
func (r *Record) ranWell(g *GPU, program string, here []Stop) (well, recently bool) {
	if len(here) == 0 {
		return false, false
	}
	first, last := here[0].Began, here[0].ended()
	for _, s := range here {
		last = latest(last, s.ended())
		if s.Began.Before(first) {
			first = s.Began
		}
	}
	for k := range r.GPUs {
		for _, q := range r.GPUs[k].Programs {
			if &r.GPUs[k] != g && (q.Program == program || program == "") && q.LastGood.After(first) {
				well, recently = true, recently || q.LastGood.Before(last.Add(judgeTime))
			}
		}
	}
	return well, recently
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// judgeTime is the longest time after a run's end in which it is judged.
const judgeTime = 5 * time.Minute

// allOf returns the probability that n chosen ones are among k of all.
func allOf(n, k, all int) float64 {
	p := 1.
	for i := range n {
		p *= float64(k-i) / float64(all-i)
	}
	return p
}

// compareHangs acts on a GPU on which a program hangs again and again that runs well on
// siblings. It quarantines one at a time, and for suspectTime: a team can produce any numbers.
func (r *Record) compareHangs(l Look) {
	stopped := func(g GPU) bool {
		return slices.ContainsFunc(g.Programs, func(p ProgramEnds) bool { return len(p.Stopped) > 0 })
	}
	suspected := slices.ContainsFunc(r.GPUs, func(g GPU) bool { return g.State != InService && g.suspected() })
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.State != InService || !stopped(*g) {
			continue
		}
		s := r.suspicionOf(g)
		f := health.Fault{Kind: hangs, Value: float64(s.runs)}
		switch {
		case s.excludesChance() && l.Policy == Auto && !suspected:
			suspected = true
			g.Suspicions = append(g.recentSuspicions(l.At), l.At)
			g.quarantine(f, l.At)
			g.Programs = nil
		case s.well && s.runs >= warnHangs && s.chance <= warnChance && g.Warning == nil:
			g.Warning = &f
		}
	}
}
