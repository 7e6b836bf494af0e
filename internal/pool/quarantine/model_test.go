package quarantine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// unacknowledged are the gates of a GPU that no one acknowledged.
func unacknowledged(g GPU) (gates int) {
	_, fresh := splitAcknowledged(g.Acknowledged, g.ActiveFaults)
	for _, f := range fresh {
		if isGate(f) {
			gates++
		}
	}
	return gates
}

// Whatever GPUs, the exporter, the machine and people do in 10,000 steps.
func TestModelKeepsItsInvariants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(16, 2026))
	letters := []byte("................whHnd12bclkux")
	now := [3]byte{'.', '.', '.'}
	var r Record
	at, policy, boot := start, Auto, "b0"
	since := map[string]time.Time{} // seen well at each look since then
	seen, fates := map[State]int{}, map[Verdict]int{}
	tasks, serial := []Task(nil), 0
	check, checks, checked := "", map[string]HealthCheck{}, 0
	for step := range 10_000 {
		at = at.Add(15 * time.Second)
		if rnd.IntN(400) == 0 {
			at = at.Add(time.Duration(rnd.IntN(4000)-1000) * time.Second) // a pause, or a clock set back
			clear(since)
		}
		if rnd.IntN(300) == 0 {
			policy = []Policy{Auto, Auto, Auto, Manual, Off}[rnd.IntN(5)]
		}
		if rnd.IntN(500) == 0 {
			boot += "x"
			clear(since)
		}
		before := r
		switch name := names[rnd.IntN(len(names))]; rnd.IntN(100) {
		case 0:
			if next, err := r.Quarantine(name, "a person", at); err == nil {
				require.Equal(t, Quarantined, next.Find(name).State)
				r = next
			}
		case 1:
			if next, standing, err := r.Return(name, at); err == nil {
				if g := next.Find(name); g != nil {
					require.Equal(t, InService, g.State)
					require.Equal(t, standing, g.Acknowledged)
				}
				r = next
			}
		}
		told := r // by hand
		if rnd.IntN(400) == 0 {
			check = []string{"", "/opt/check", "/opt/check", "/opt/other"}[rnd.IntN(4)]
		}
		for _, name := range names {
			switch p := checks[name]; {
			case p.Running && rnd.IntN(2) == 0: // it ends, or its process no longer exists
				p.Running, p.Ended, p.End = false, at, []HealthCheckEnd{Passed, Passed, Passed, Failed, NotRun, ""}[rnd.IntN(6)]
				checks[name] = p
			case !p.Running && (slices.Contains(r.DueHealthChecks(), name) || rnd.IntN(100) == 0):
				checks[name] = HealthCheck{Name: name, Command: check, Began: at, Running: true}
			}
		}
		l := Look{At: at, Policy: policy, Boot: boot, Driver: "1", HealthCheck: check, HealthChecks: slices.Collect(maps.Values(checks))}
		if rnd.IntN(20) == 0 {
			l.Unknown = "the exporter does not answer"
			clear(since)
		}
		for i := range now {
			if rnd.IntN(30) == 0 {
				now[i] = letters[rnd.IntN(len(letters))]
			}
			s, here := sign(i, now[i])
			if here && l.Unknown == "" {
				l.GPUs = append(l.GPUs, s)
			}
			if bad := !here || s.State == health.Critical || !s.Up || s.GFX == ""; bad {
				delete(since, s.PCI)
			} else if _, ok := since[s.PCI]; !ok {
				since[s.PCI] = at
			}
		}
		if l.Unknown == "" && len(l.GPUs) == 0 {
			l.Unknown = "the exporter lists no GPU"
		}
		l.Exits = map[string]Exit{}
		l.Tasks = slices.DeleteFunc(slices.Clone(tasks), func(k Task) bool {
			status := []int{0, 1, 134, 137}[rnd.IntN(4)]
			l.Exits[k.Container] = Exit{Status: &status, Team: []string{"", "a", "b", "c"}[rnd.IntN(4)]}
			return rnd.IntN(4) == 0
		})
		for i, n := range names { // as the wrapper does: no one gets a GPU that is quarantined
			free := !slices.ContainsFunc(tasks, func(k Task) bool { return slices.Contains(k.GPUs, n) })
			if g := told.Find(n); g != nil && g.State == InService && free && rnd.IntN(3) == 0 {
				serial++
				l.Tasks = append(l.Tasks, Task{Container: fmt.Sprint(serial), StepHash: []string{"", "a", "b"}[rnd.IntN(3)],
					Program: []string{"", "p", "q", "r"}[rnd.IntN(4)], GPUs: names[i : i+1]})
			}
		}
		tasks = l.Tasks
		r = Decide(r, l)

		require.LessOrEqual(t, len(r.FaultyRuns), maxFaultyRuns)
		require.LessOrEqual(t, len(r.Runs), maxRuns)
		for _, g := range r.GPUs {
			if g.suspected() {
				require.False(t, g.ManualReturn, "step %d: crashes alone never need a person", step)
			}
			require.LessOrEqual(t, len(g.Programs), maxPrograms)
		}
		for _, m := range r.FaultyRuns {
			require.NotEmpty(t, m.faulty(), "step %d", step)
			require.NotEmpty(t, m.Reason, "step %d", step)
		}
		maps.Copy(fates, r.Verdicts)

		for _, g := range r.GPUs {
			seen[g.State]++
			was := told.Find(g.Name)
			if was == nil {
				was = &GPU{State: InService}
			}
			fell := was.State != Quarantined && g.State == Quarantined // persons quarantine between looks
			require.Equal(t, was.Times+map[bool]uint64{true: 1}[fell], g.Times, "step %d: each time counts, and nothing else", step)
			if was.State == OnProbation && g.State == Quarantined && isGate(*g.Fault) {
				require.LessOrEqual(t, len(g.Strikes), len(was.Strikes), "step %d: no task had it", step)
			}
			if g.State != was.State {
				require.NotEmpty(t, g.Reason, "step %d: no change without a reason", step)
				require.Equal(t, at, g.Since)
			}
			require.Equal(t, g.State != InService, g.QuarantinedSince != nil)
			require.Equal(t, g.State != InService, g.QuarantinedBy != "")
			switch {
			case policy == Off:
				require.Equal(t, InService, g.State, "step %d: off is off", step)
				continue
			case policy == Manual:
				require.NotEqual(t, ByHealth, g.QuarantinedBy, "step %d: persons alone", step)
			case l.Unknown != "":
				require.Equal(t, was.State, g.State, "step %d: what is unknown changes nothing", step)
			case unacknowledged(g) > 0:
				require.Equal(t, Quarantined, g.State, "step %d: %+v", step, g)
			}
			if was.QuarantinedBy == ByHand {
				require.Equal(t, Quarantined, g.State, "step %d: until a person returns it", step)
			}
			if policy == Auto && was.QuarantinedBy == ByHealth && g.State == InService {
				require.Empty(t, g.ActiveFaults, "step %d: it came back sick", step)
				require.GreaterOrEqual(t, at.Sub(since[g.Name]), was.probation(), "step %d: it was not well for long enough", step)
				require.False(t, was.ManualReturn, "step %d", step)
				if p := checks[g.Name]; check != "" {
					require.Equal(t, Passed, p.End, "step %d: it came back without a health check", step)
					require.Equal(t, check, p.Command)
					require.False(t, p.Began.Before(since[g.Name].Add(was.probation())), "step %d: the health check is an old one", step)
					checked++
				}
			}
			if g.PendingHealthCheck != nil {
				require.Equal(t, OnProbation, g.State, "step %d", step)
				require.NotEmpty(t, g.PendingHealthCheck.Text)
				require.False(t, g.PendingHealthCheck.Due && checks[g.Name].Running, "step %d: one at a time", step)
			}
			if was.State == InService && g.State == Quarantined {
				byTasks := g.Fault != nil && (g.Fault.Kind == blamed || g.Fault.Kind == failures)
				require.True(t, len(g.ActiveFaults) > 0 || byTasks, "step %d: quarantined for nothing", step)
			}
		}
		if len(before.GPUs) > 0 && l.Unknown != "" {
			require.Len(t, r.GPUs, len(told.GPUs))
		}
	}
	require.Positive(t, checked, "the model never checks a GPU")
	for _, s := range []State{InService, Quarantined, OnProbation} {
		require.Greater(t, seen[s], 300, "the model hardly ever is %s", s)
	}
	for _, v := range []Verdict{Infrastructure, TaskCaused} {
		require.Positive(t, fates[v], "the model never has the verdict %s", v)
	}
}
