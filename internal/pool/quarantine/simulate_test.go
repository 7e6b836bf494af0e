package quarantine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// site is a machine with GPUs that run builds of several teams. Its builds are typical for
// a CI: most programs never crash, some do now and then, and one always does.
type site struct {
	rnd      *rand.Rand
	r        Record
	at       time.Time
	given    []time.Time
	programs []program
	bad      int     // this GPU makes programs crash, -1 for none
	badness  float64 // how often
	sign     bool    // the bad GPU has correctable errors
	builds   []int   // of each GPU
}

// program is one that a team's job runs. crashes is how often it crashes on any GPU.
type program struct {
	name, team string
	crashes    float64
	weight     int
}

// buildsPerDay of a machine with simulatedGPUs.
const (
	simulatedGPUs = 8
	buildsPerDay  = 96
)

func newSite(seed uint64) *site {
	s := &site{rnd: rand.New(rand.NewPCG(36, seed)), at: start, bad: -1, given: make([]time.Time, simulatedGPUs),
		builds: make([]int, simulatedGPUs)}
	for team := range 4 {
		for k := range 5 {
			p := program{name: fmt.Sprint(team, "-", k), team: fmt.Sprint("team ", team), weight: 1 + k}
			switch {
			case k == 3: // a flaky one of each team
				p.crashes = []float64{0.02, 0.05, 0.1, 0.3}[team]
			case k == 4 && team == 2:
				p.crashes = 1
			default:
				p.crashes = 0.002
			}
			s.programs = append(s.programs, p)
		}
	}
	for i := range simulatedGPUs {
		s.r.GPUs = append(s.r.GPUs, GPU{Ref: Ref{Name: gpuName(i), Index: i}, State: InService})
	}
	return s
}

func gpuName(i int) string { return fmt.Sprintf("0000:%02x:00.0", 3+i) }

// choose gives a GPU as leases do. Some are busy with other builds.
func (s *site) choose() int {
	var free []int
	for i := range s.r.GPUs {
		if s.r.GPUs[i].State == InService && s.rnd.IntN(3) > 0 {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return -1
	}
	return slices.MinFunc(free, func(a, b int) int { return s.given[a].Compare(s.given[b]) })
}

// build runs one build and decides, as a look after its end does. It returns the GPU that
// was quarantined.
func (s *site) build() (quarantined int) {
	s.at = s.at.Add(24 * time.Hour / buildsPerDay)
	gpu := s.choose()
	if gpu < 0 {
		return -1
	}
	weights := 0
	for _, p := range s.programs {
		weights += p.weight
	}
	n, k := s.rnd.IntN(weights), 0
	for ; n >= s.programs[k].weight; k++ {
		n -= s.programs[k].weight
	}
	p := s.programs[k]
	exit := []int{0, 0, 0, 0, 1, 143}[s.rnd.IntN(6)] // some tests fail, and some builds are aborted
	if s.rnd.Float64() < p.crashes || gpu == s.bad && s.rnd.Float64() < s.badness {
		exit = 139
	}
	s.given[gpu] = s.at
	s.builds[gpu]++
	s.r.countOutcome(Run{Container: "c", Program: p.name, Team: p.team, Exit: &exit, GPUs: []Use{{Ref: s.r.GPUs[gpu].Ref}}})
	return s.decide()
}

// decide compares as Decide does, and returns quarantined GPUs after their probation.
func (s *site) decide() (quarantined int) {
	l := Look{At: s.at, Policy: Auto}
	for i := range s.r.GPUs {
		one := Reading{Slot: gpu.Slot{PCI: gpuName(i)}}
		if i == s.bad && s.sign {
			one.Faults = []health.Fault{{Kind: health.CorrectableErrors, Value: 40}}
		}
		l.GPUs = append(l.GPUs, one)
	}
	for i := range s.r.GPUs {
		if g := &s.r.GPUs[i]; g.State != InService && s.at.Sub(g.Since) >= g.probation() && !g.ManualReturn {
			g.move(InService, "well", s.at)
		}
	}
	s.r.At, quarantined = s.at, -1
	s.r.compareOutcomes(l)
	for i := range s.r.GPUs {
		if g := &s.r.GPUs[i]; g.State != InService && g.Since.Equal(s.at) {
			quarantined = i
		}
	}
	return quarantined
}

// falsePositives returns how often healthy GPUs are quarantined, a GPU-year.
func falsePositives(days int) float64 {
	s, n := newSite(1), 0
	for range days * buildsPerDay {
		if s.build() >= 0 {
			n++
		}
	}
	return float64(n) / (float64(days) / 365.25 * simulatedGPUs)
}

// detection returns how many builds a GPU that has become bad gets until it is quarantined,
// for each of some machines, sorted. most is returned for a GPU that is not found.
func detection(sites int, badness float64, most int) []int {
	var all []int
	for seed := range sites {
		s := newSite(uint64(seed))
		for range 14 * buildsPerDay { // healthy before
			s.build()
		}
		s.bad, s.badness = seed%simulatedGPUs, badness
		before := s.builds[s.bad]
		for s.builds[s.bad]-before < most && s.build() != s.bad {
		}
		all = append(all, s.builds[s.bad]-before)
	}
	slices.Sort(all)
	return all
}

// simulation is what 10,000 days of builds give: a table. The docs have two of its numbers.
const simulation = "testdata/simulated.golden"

// TestSimulatedYears plays a part of 10,000 days of builds, and all of them with SIMULATE=1,
// which then compares the table (go test -update rewrites it).
func TestSimulatedYears(t *testing.T) {
	days, sites, most := 400, 40, 60
	all := os.Getenv("SIMULATE") != ""
	if all {
		days, sites, most = 10_000, 200, 400
	}
	healthy := falsePositives(days)
	require.Less(t, healthy, 1.0, "healthy GPUs quarantined a GPU-year")
	var table strings.Builder
	fmt.Fprintf(&table, "| GPU | half of such GPUs are quarantined within | 90 %% within |\n|---|---|---|\n")
	for _, badness := range []float64{1, 0.8, 0.5, 0.3, 0.1} {
		if !all && badness < 0.5 {
			continue
		}
		n := detection(sites, badness, most)
		half, nearly := n[sites/2], n[sites*9/10]
		t.Logf("crashes %.0f %% of the builds: half within %d, 90 %% within %d builds", badness*100, half, nearly)
		if badness == 1 {
			require.LessOrEqual(t, nearly, 10)
		}
		fmt.Fprintf(&table, "| crashes %.0f %% of its builds | %d builds | %d |\n", badness*100, half, nearly)
	}
	fmt.Fprintf(&table, "| healthy | %.2f times a year | |\n", healthy)
	if all {
		hosttest.Golden(t, simulation, table.String())
	}
}

func TestDocsHaveTheSimulatedNumbers(t *testing.T) {
	table, err := os.ReadFile(simulation)
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/explanation/gpu-health.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`\| (crashes 50 % of its builds|healthy) \| ([\d.]+)`).FindAllSubmatch(table, -1)
	require.Len(t, rows, 2)
	for _, row := range rows {
		require.Regexp(t, `(?s)`+string(row[1])+`\D+`+string(row[2])+`\s`, string(page))
	}
}
