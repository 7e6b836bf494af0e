package quarantine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shift plays runs of programs on three GPUs at once, as single-GPU builds do.
type shift struct {
	r  Record
	at time.Time
}

func newShift(gpus int) *shift {
	s := &shift{at: start}
	for i := range gpus {
		s.r.GPUs = append(s.r.GPUs, GPU{Ref: Ref{Name: gpuName(i), Index: i}, State: InService})
	}
	return s
}

// end ends a run that began some time before, and compares.
func (s *shift) end(gpu int, program string, status int, lasted time.Duration, used float64) {
	ended := s.at
	s.r.At = s.at
	s.r.countOutcome(Run{Container: "c", StepHash: "step", Program: program, Began: s.at.Add(-lasted), Ended: &ended, Exit: &status,
		GPUs: []Use{{Ref: s.r.GPUs[gpu].Ref, MemoryBefore: &used}}})
	s.r.compareOutcomes(Look{At: s.at, Policy: Auto})
}

func TestStoppedRunsAreComparedWithRunsOnSiblings(t *testing.T) {
	const hang, usual = 45 * time.Minute, 67 * time.Second
	for name, c := range map[string]struct {
		good    int // runs on siblings for each hung one
		status  int
		hung    time.Duration
		used    float64
		elapsed int // hung runs until it is quarantined, 0 for never
		warned  bool
	}{
		"three hang while siblings end six":        {2, 143, hang, 0, 4, true},
		"three hang while siblings end many":       {8, 143, hang, 0, 3, true},
		"timeout of the script":                    {8, 124, hang, 0, 3, true},
		"killed":                                   {8, 137, hang, 0, 3, true},
		"hangs that ended before their usual time": {8, 143, time.Minute, 0, 0, false},
		"tests that fail late":                     {8, 1, hang, 0, 0, false},
		"nothing ends well elsewhere":              {0, 143, hang, 0, 0, false},
		"an owner's program has the memory":        {8, 143, hang, 20 << 30, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShift(3)
			elapsed, warned := 0, false
			for n := 1; n <= 5 && elapsed == 0; n++ {
				for i := range c.good {
					s.at = s.at.Add(2 * time.Minute)
					s.end(1+i%2, "attention", 0, usual, 0)
				}
				s.at = s.at.Add(time.Minute)
				s.end(0, "attention", c.status, c.hung, c.used)
				warned = warned || s.r.GPUs[0].WarningText() != ""
				if s.r.GPUs[0].State == Quarantined {
					elapsed = n
				}
			}
			require.Equal(t, c.elapsed, elapsed)
			require.Equal(t, c.warned, warned)
		})
	}
}

// One suite ends 22 of 23 times on two GPUs, and never on a third one.
func TestGPUThatHangsEachOfThreeRunsIsWarnedAbout(t *testing.T) {
	for _, status := range []int{124, 137, 143} {
		s, hung := newShift(3), 0
		for k := range 17 {
			exit := 0
			if k == 5 {
				exit = 1
			}
			s.at = s.at.Add(2 * time.Minute)
			s.end(2, "suite", exit, 65*time.Second, 0)
			if k < 6 {
				s.end(1, "suite", 0, 68*time.Second, 0)
			}
			if k%6 != 3 {
				continue
			}
			lasted := []time.Duration{30 * time.Minute, 89 * time.Minute, 350 * time.Minute}[hung]
			s.at = s.at.Add(lasted)
			s.end(0, "suite", status, lasted, 0)
			hung++
		}
		g := s.r.GPUs[0]
		require.True(t, g.State == Quarantined || g.WarningText() != "", "%d: %+v", status, g)
		for _, g := range s.r.GPUs[1:] {
			require.Equal(t, InService, g.State)
			require.Empty(t, g.WarningText())
		}
	}
}

// A step's new code hangs everywhere, and only one GPU got it so far.
func TestNewCodeThatHangsBlamesNoGPU(t *testing.T) {
	s := newShift(3)
	for i := range 30 {
		s.at = s.at.Add(5 * time.Minute)
		s.end(i%3, "test", 0, time.Minute, 0)
	}
	for range 5 {
		s.at = s.at.Add(time.Hour)
		s.end(0, "test", 143, 50*time.Minute, 0)
	}
	require.Equal(t, InService, s.r.GPUs[0].State)
	require.Empty(t, s.r.GPUs[0].WarningText())
}

// A look sees the end of a run some time later, so the times of short runs are not compared.
func TestShortRunsThatAUserAbortsBlameNoGPU(t *testing.T) {
	s := newShift(3)
	for i := range 40 {
		s.at = s.at.Add(time.Minute)
		s.end(1+i%2, "test", 0, 2*time.Second, 0)
		s.end(0, "test", 143, 20*time.Second, 0)
	}
	require.Equal(t, InService, s.r.GPUs[0].State)
	require.Empty(t, s.r.GPUs[0].WarningText())
}

// One branch of a job hangs, and its builds are run again. Leases take the GPU that was leased
// least recently, and that is the one on which the build hung.
func TestBranchThatHangsBlamesNoGPU(t *testing.T) {
	s := newShift(3)
	begun := []time.Time{start, start.Add(1), start.Add(2)}
	take := func(other int) (best int) {
		best = -1
		avoid := s.r.Avoid()
		avoided := func(g int) bool { return slices.Contains(avoid[gpuName(g)], "step") }
		for g := range begun {
			if g == other {
				continue
			}
			if best < 0 || avoided(best) && !avoided(g) || avoided(best) == avoided(g) && begun[g].Before(begun[best]) {
				best = g
			}
		}
		begun[best] = s.at
		return best
	}
	for range 12 {
		hangs := take(-1)
		for range 9 {
			s.at = s.at.Add(5 * time.Minute)
			s.end(take(hangs), "test", 0, time.Minute, 0)
		}
		s.end(hangs, "test", 143, 45*time.Minute, 0)
		for _, g := range s.r.GPUs {
			require.Equal(t, InService, g.State)
		}
	}
}

// The next attempt of a step can begin a second after its timeout.
func TestNextAttemptOfAStepThatHangsGetsAnotherGPU(t *testing.T) {
	s := newShift(3)
	s.end(1, "test", 0, time.Minute, 0)
	run := Run{Container: "c", StepHash: "step", Program: "test", Began: s.at, GPUs: []Use{{Ref: s.r.GPUs[0].Ref}}}
	status := func(n int) *int { return &n }
	ended := s.at.Add(45 * time.Minute)
	none, hung := map[string][]string{}, map[string][]string{gpuName(0): {"step"}}
	for name, c := range map[string]struct {
		at   time.Duration
		exit *int
		want map[string][]string
	}{
		"it runs as usual":    {2 * time.Minute, nil, none},
		"it runs for long":    {3 * time.Minute, nil, hung},
		"it was stopped":      {46 * time.Minute, status(143), hung},
		"it ended by itself":  {46 * time.Minute, status(0), none},
		"its end is not read": {46 * time.Minute, nil, hung},
	} {
		if s.r.At, run.Ended, run.Exit = s.at.Add(c.at), nil, c.exit; !s.r.At.Before(ended) {
			run.Ended = &ended
		}
		s.r.Runs = []Run{run}
		require.Equal(t, c.want, s.r.Avoid(), name)
	}
}

func TestHungRunsOfSeveralProgramsAddUp(t *testing.T) {
	s := newShift(3)
	for i := range 60 {
		s.at = s.at.Add(5 * time.Minute)
		s.end(i%3, fmt.Sprint("test ", i%4), 0, time.Minute, 0)
	}
	for n := range 3 {
		require.Equal(t, InService, s.r.GPUs[0].State)
		s.at = s.at.Add(time.Hour)
		s.end(1, fmt.Sprint("test ", n), 0, time.Minute, 0)
		s.end(0, fmt.Sprint("test ", n), 143, 30*time.Minute, 0)
	}
	require.Equal(t, Quarantined, s.r.GPUs[0].State)
	require.Equal(t, "3 runs in a row hung on it, and their programs run well on others", s.r.GPUs[0].Reason)
}

// years plays healthy GPUs with users who abort, programs that hang now and then, new code that
// crashes or hangs for hours, and owners' programs on a GPU for days. It returns how often a
// healthy GPU was quarantined. After spinsFrom, GPU 0 hangs, and it returns its builds until
// then.
func years(seed uint64, days, spinsFrom int) (falsely, builds int) {
	s, rnd := newShift(simulatedGPUs), rand.New(rand.NewPCG(46, seed))
	broken := map[int]time.Time{} // since when a program has bad code, for eight hours
	for day := range days {
		owned := -1
		if day%9 < 2 {
			owned = day % simulatedGPUs
		}
		for range buildsPerDay {
			s.at = s.at.Add(24 * time.Hour / buildsPerDay)
			for i := range s.r.GPUs {
				if g := &s.r.GPUs[i]; g.State != InService && s.at.Sub(g.Since) >= g.probation() {
					g.move(InService, "well", s.at)
				}
			}
			gpu, program := rnd.IntN(simulatedGPUs), rnd.IntN(20)
			if s.r.GPUs[gpu].State != InService {
				continue
			}
			usual := time.Duration(1+program) * time.Minute
			lasted := time.Duration(float64(usual) * (.8 + .4*rnd.Float64()))
			status, used := 0, 0.
			hangs := []float64{0, .002, .01, .05, .2}[program%5]
			if rnd.IntN(500) == 0 {
				broken[program] = s.at
			}
			bad := func(lasted time.Duration) bool {
				since := s.at.Add(-lasted).Sub(broken[program])
				return since >= 0 && since < 8*time.Hour
			}
			if program%2 == 0 && bad(lasted) && !bad(10*usual) {
				continue // it hangs, and its end comes later
			}
			if gpu == owned {
				used, hangs = 30<<30, .5
			}
			switch {
			case rnd.Float64() < hangs || program%2 == 0 && bad(10*usual) || day >= spinsFrom && gpu == 0:
				status, lasted = []int{143, 137, 124}[rnd.IntN(3)], 10*usual
			case program%2 == 1 && bad(lasted):
				status = 139
			case rnd.IntN(5) == 0: // a user who aborts, now and then late
				status, lasted = 143, time.Duration(rnd.Float64()*1.6*float64(usual))
			case rnd.IntN(6) == 0:
				status = 1
			}
			s.end(gpu, fmt.Sprint(program), status, lasted, used)
			builds += map[bool]int{true: 1}[gpu == 0 && day >= spinsFrom]
			for i := range s.r.GPUs {
				if g := &s.r.GPUs[i]; g.State != InService && g.Since.Equal(s.at) {
					if day >= spinsFrom && i == 0 {
						return falsely, builds
					}
					falsely++
				}
			}
		}
	}
	return falsely, builds
}

func TestNoHealthyGPUIsQuarantinedInYearsOfAbortsAndBadCode(t *testing.T) {
	days, seeds := 100, 4
	if os.Getenv("SIMULATE") != "" {
		days, seeds = 2_000, 40
	}
	falsely, _ := years(1, days, days) // 100 days of 8 GPUs are more than two years of one
	require.Zero(t, falsely)
	for seed := range seeds {
		falsely, builds := years(uint64(seed), 28, 14)
		require.Zero(t, falsely)
		t.Logf("a GPU that spins had %d builds", builds)
		require.LessOrEqual(t, builds, 16, "of 20 programs, some of which hang anywhere")
	}
}
