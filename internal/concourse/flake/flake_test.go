package flake

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// score counts what Find reports against the labels.
type score struct{ right, wrong, rightKind, labelled, found int }

func (s *score) add(site *madeSite, r Report, t *testing.T, show bool) {
	seen := map[Key]bool{}
	for _, f := range r.Flakes {
		want, is := site.labels[f.Key]
		hardware := f.Place != nil && site.bad.worker == f.Place.Worker && site.bad.gpu == f.Place.GPU
		switch {
		case is:
			s.right++
			seen[f.Key] = true
		case hardware && f.Key.Test == "":
			s.right, s.rightKind = s.right+1, s.rightKind+1
			continue
		default:
			if s.wrong++; show {
				t.Logf("wrong: %+v place %+v bad %+v", f, f.Place, site.bad)
			}
			continue
		}
		if f.Kind == want.kind && (f.Place == nil || spot{f.Place.Worker, f.Place.GPU} == want.spot) {
			s.rightKind++
		} else if show {
			t.Logf("wrong kind: %+v place %+v want %+v", f, f.Place, want)
		}
	}
	s.labelled += len(site.labels)
	s.found += len(seen)
}

func (s score) precision() float64 { return float64(s.right) / float64(s.right+s.wrong) }
func (s score) kinds() float64     { return float64(s.rightKind) / float64(s.right) }
func (s score) recall() float64    { return float64(s.found) / float64(s.labelled) }

func TestFlakesOfMadeSitesAreFound(t *testing.T) {
	for _, verdicts := range []bool{false, true} {
		t.Run(fmt.Sprintf("verdicts=%v", verdicts), func(t *testing.T) {
			var all score
			for seed := range uint64(24) {
				site := makeSite(seed, verdicts)
				all.add(site, Find(site.runs), t, testing.Verbose())
			}
			t.Logf("precision %.3f, of kinds and places %.3f, recall %.3f of %d", all.precision(), all.kinds(), all.recall(), all.labelled)
			require.GreaterOrEqual(t, all.precision(), 0.95)
			require.GreaterOrEqual(t, all.kinds(), 0.95)
			require.GreaterOrEqual(t, all.recall(), 0.85)
		})
	}
}

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// runs returns runs of one task from a word each: the result (P, F, E, A), the inputs and,
// after "@", the worker and the GPU.
func runs(words string) (out []Run) {
	results := map[byte]Result{'P': Passed, 'F': Failed, 'E': Errored, 'A': Aborted}
	for n, word := range strings.Fields(words) {
		inputs, place, _ := strings.Cut(word[1:], "@")
		r := Run{Key: Key{"main", "p", "j", "unit", ""}, Build: n + 1, Name: fmt.Sprint(n + 1), Inputs: inputs,
			Result: results[word[0]], Time: noon.Add(time.Duration(n) * time.Hour)}
		if worker, gpu, is := strings.Cut(place, "/"); is {
			r.Worker, r.GPUs = worker, []string{gpu}
		}
		out = append(out, r)
	}
	return out
}

func TestTaskIsFlakyOnlyByOtherResultsOfEqualInputs(t *testing.T) {
	for words, failures := range map[string]int{
		"Fa Pa Pb Fc Pc":          2, // failed and passed with the same inputs, twice
		"Pa Fa Pa Pb Pb Fb Pb":    2,
		"Fa Pa Pb Pc":             0, // once: perhaps an outage
		"Pa Fb Fb Fc Fc Pd":       0, // a change broke it and another one fixed it
		"Pa Pb Fb Fa Fb Pc":       0, // something outside of the inputs broke it for a time
		"Ea Pa Eb Pb Ec Pc":       0, // Concourse could not run it
		"Aa Pa Ab Pb":             0, // a person aborted it
		"Pa Fb Pc Pd Fe Pf":       0, // two changes, each fixed by the next one
		"Pa Pa Fb Pb Fc Fd Fe Pe": 1, // only the failure of b is none of a change
	} {
		r := Find(runs(words))
		if failures < 2 {
			require.Empty(t, r.Flakes, words)
			continue
		}
		require.Len(t, r.Flakes, 1, words)
		require.Equal(t, failures, r.Flakes[0].Failures, words)
		require.Equal(t, KindTest, r.Flakes[0].Kind, words)
	}
}

// Runs without known inputs show nothing.
func TestUnknownInputsAreNotEqual(t *testing.T) {
	require.Empty(t, Find(runs("F P F P F P")).Flakes)
}

func TestFlakeNamesTheGPUOnWhichItFails(t *testing.T) {
	words := ""
	for n := range 9 {
		words += fmt.Sprintf("%c%d@w2/3 ", "FFPFFFPFF"[n], n)
		for m := range 5 {
			words += fmt.Sprintf("P%d@w%d/%d ", n, m%3, m%2)
		}
	}
	r := Find(runs(words))
	require.Len(t, r.Flakes, 1)
	f := r.Flakes[0]
	require.Equal(t, KindGPU, f.Kind)
	require.Equal(t, []any{"w2", "3", 7, 9, 0, 45}, []any{f.Place.Worker, f.Place.GPU, f.Place.Failures, f.Place.Runs, f.Place.OthersFail,
		f.Place.OthersRuns})
	require.Less(t, f.Place.Probability, 1e-5)
	require.Equal(t, noon, f.Since)
	require.Len(t, f.Builds, maxBuilds)
	require.Empty(t, r.Places, "one task shows nothing about the others")
}

// A suite passes 22 of 23 times on two GPUs, and times out at each run on a third one.
func TestGPUWithThreeTimeoutsIsNamed(t *testing.T) {
	words := ""
	for n := range 17 {
		result := 'P'
		if n == 5 {
			result = 'F'
		}
		words += fmt.Sprintf("%c%d@w/83 ", result, n)
		if n < 6 {
			words += fmt.Sprintf("P%d@w/43 ", n)
		}
		if n%6 == 3 {
			words += fmt.Sprintf("F%d@w/03 ", n)
		}
	}
	r := Find(runs(words))
	require.Len(t, r.Flakes, 1)
	require.Equal(t, KindGPU, r.Flakes[0].Kind)
	p := r.Flakes[0].Place
	require.Equal(t, []any{"03", 3, 3}, []any{p.GPU, p.Failures, p.Runs})
}

// One of four workers returns wrong numbers.
func TestWorkerOnWhichAllRunsFailIsNamed(t *testing.T) {
	words := ""
	for n := range 40 {
		words += fmt.Sprintf("%c%d@w%d/c6 ", "FPPP"[n%4], n/2, n%4)
	}
	r := Find(runs(words))
	require.Len(t, r.Flakes, 1)
	require.Equal(t, KindWorker, r.Flakes[0].Kind)
	p := r.Flakes[0].Place
	require.Equal(t, []any{"w0", 10, 10, 0, 30}, []any{p.Worker, p.Failures, p.Runs, p.OthersFail, p.OthersRuns})
}

// Jobs that always ran on one worker fail there with all their changes. That is not a sign
// of the worker.
func TestPlaceOfAllRunsIsNotBlamed(t *testing.T) {
	r := Find(runs("Fa@w1/0 Pa@w1/0 Fb@w1/0 Pb@w1/0 Fc@w1/0 Pc@w1/0 Fd@w1/0 Pd@w1/0"))
	require.Len(t, r.Flakes, 1)
	require.Equal(t, KindTest, r.Flakes[0].Kind)
}

func TestFailuresOfSeveralJobsAtOnceAreAnOutage(t *testing.T) {
	var all []Run
	for job := range 4 {
		for n, r := range runs("Pa@w1/0 Fa@w1/0 Pa@w2/0 Pb@w1/0 Fb@w1/0 Pb@w2/0") {
			r.Job, r.GPUs = fmt.Sprint(job), []string{fmt.Sprint(job)}
			r.Build, r.Time = 10*n+job, r.Time.Add(time.Duration(job)*time.Minute)
			all = append(all, r)
		}
	}
	r := Find(all)
	require.Empty(t, r.Flakes)
	require.Empty(t, r.Places)
	require.Len(t, r.Lost, 8)
	require.Equal(t, ByConcourse, r.Lost[0].Cause)
	require.Len(t, Find(all[:6]).Flakes, 1, "one job alone is flaky")
}

// Outages that nothing shows fail all tasks now and then.
func TestTaskThatFailsLikeAllOthersIsNotFlaky(t *testing.T) {
	var all []Run
	add := func(job, words string, after time.Duration) {
		for _, r := range runs(words) {
			r.Job, r.Time = job, r.Time.Add(after)
			all = append(all, r)
		}
	}
	for n := range 6 {
		add(fmt.Sprint(n), "Fa Pa Pb Fc Pc Pd Pe Pf Pg Ph", time.Duration(n)*20*time.Minute)
	}
	require.Empty(t, Find(all).Flakes)
	add("worse", "Fa Pa Fb Pb Fc Pc Fd Pd Fe Pe Ff Pf Fg Pg", 5*time.Minute)
	r := Find(all)
	require.Len(t, r.Flakes, 1)
	require.Equal(t, "worse", r.Flakes[0].Job)
}

// A verdict decides before statistics.
func TestVerdictsOfInfrastructureAreNoFlakes(t *testing.T) {
	all := runs("Fa Pa Fb Pb Fc Pc")
	for i := range all {
		if all[i].Result == Failed {
			all[i].Cause, all[i].Reason = ByNeighbour, "OOM by a neighbour"
		}
	}
	r := Find(all)
	require.Empty(t, r.Flakes)
	require.Len(t, r.Lost, 3)
	require.Equal(t, "OOM by a neighbour", r.Lost[0].Reason)
	require.Empty(t, Find(runs("Ea Pa Eb Pb Ec Pc")).Lost, "an error without a sign may be the pipeline's")
}

// Without both results, on the place and elsewhere, a comparison cannot show anything.
func TestTablesWithoutBothSidesDoNotInform(t *testing.T) {
	for c, want := range map[table]bool{
		{1, 0, 0, 1}: true, {0, 1, 1, 0}: true, {2, 3, 4, 5}: true,
		{0, 0, 1, 1}: false, {1, 1, 0, 0}: false, {0, 1, 0, 1}: false, {1, 0, 1, 0}: false, {}: false,
	} {
		require.Equal(t, want, c.informs(), "%+v", c)
	}
}

// Several tasks fail on one GPU, each too rarely to blame it alone.
func TestGPUOnWhichSeveralTasksFailIsNamed(t *testing.T) {
	var all []Run
	for task := range 4 {
		for n, r := range runs("Fa@w2/3 Pa@w1/0 Pa@w2/1 Fb@w2/3 Pb@w1/1 Pb@w2/2 Fc@w2/3 Pc@w1/0 Pc@w2/1 Pd@w1/1 Pd@w2/2") {
			r.Step, r.Build = fmt.Sprint("step", task), 100*task+n
			r.Time = r.Time.Add(time.Duration(task) * 40 * time.Hour)
			all = append(all, r)
		}
	}
	r := Find(all)
	require.Len(t, r.Places, 1)
	p := r.Places[0]
	require.Equal(t, []any{"w2", "3", 12, 12, 0, 32, 4},
		[]any{p.Worker, p.GPU, p.Failures, p.Runs, p.OthersFail, p.OthersRuns, p.Tasks})
	require.Empty(t, Find(all[:11]).Places, "one task shows nothing about the others")
}

// The values come from exact sums of binomial coefficients.
func TestExactTestIsFishers(t *testing.T) {
	for _, c := range []struct {
		table
		p float64
	}{{table{7, 2, 0, 41}, 3.604e-07}, {table{3, 1, 1, 3}, 0.242857}, {table{1, 9, 11, 3}, 0.999967}, {table{5, 0, 0, 5}, 1. / 252}} {
		require.InEpsilon(t, c.p, exact(c.table), 1e-3, "%+v", c.table)
	}
	require.InEpsilon(t, 1./36, exact(table{2, 0, 0, 2}, table{2, 0, 0, 2}), 1e-9, "two tables multiply")
	require.Equal(t, 1.0, exact(table{0, 3, 0, 9}))
}

func TestHolmCorrectsForTheNumberOfComparisons(t *testing.T) {
	require.InDeltaSlice(t, []float64{0.03, 0.06, 0.06, 0.02}, holm([]float64{0.01, 0.03, 0.03, 0.005}), 1e-9)
	require.InDeltaSlice(t, []float64{0.03, 0.9, 0.8}, holm([]float64{0.01, 0.9, 0.4}), 1e-9)
}

// Root of a worker chooses the names of its GPUs. Each place is counted in one pass: 800 runs
// with 64 names each have 51,200 places.
func TestInventedGPUsAreNoPlace(t *testing.T) {
	var all []Run
	for n := range 800 {
		r := runs(fmt.Sprintf("%c%d@odd/0", "FP"[n%2], n/2))[0]
		r.Build, r.Time, r.GPUs = n, r.Time.Add(time.Duration(n)*time.Hour), nil
		for g := range 64 {
			r.GPUs = append(r.GPUs, fmt.Sprint(n, "-", g))
		}
		all = append(all, r)
	}
	r := Find(all)
	require.Len(t, r.Flakes, 1)
	require.Equal(t, KindTest, r.Flakes[0].Kind)
	require.Empty(t, r.Places)
}
