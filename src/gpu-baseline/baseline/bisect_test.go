package baseline

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// seconds is a profile with the example "a", and more if given as name=s.
func seconds(t *testing.T, s string, more ...string) Profile {
	t.Helper()
	p := Profile{Examples: []Example{{"a", Measured{Status: StatusOK, Duration: amount(t, s), Memory: nil}}}}
	for _, m := range more {
		name, s, _ := strings.Cut(m, "=")
		p.Examples = append(p.Examples, Example{name, Measured{Status: StatusOK, Duration: amount(t, s), Memory: nil}})
	}
	return p
}

// world is a bisection with commits that measure what they are asked for.
type world struct {
	bisection
	of   func(commit int) (Profile, string) // the profile, or why the commit is broken
	made int
	log  []string
}

func newWorld(n int, of func(commit int) (Profile, string)) *world {
	pct := Percent(10)
	w := &world{of: of, bisection: bisection{runs: make([][]Profile, n), broken: make([]string, n), limits: Limits{DurationPct: &pct}, noise: 0.02, minRuns: 1, maxRuns: 5, canRun: true}}
	for i := range n {
		w.commits = append(w.commits, Commit{ID: fmt.Sprintf("c%d", i)})
	}
	return w
}

func (w *world) measure(commit int) {
	p, why := w.of(commit)
	if why != "" {
		w.broken[commit] = why
	} else {
		w.runs[commit] = append(w.runs[commit], p)
	}
}

// search goes on until the end, which comes after maxRuns of each commit at the latest.
func (w *world) search(t *testing.T) ([]Found, error) {
	t.Helper()
	for {
		s, found, err := w.next()
		if err != nil || s == noStep {
			return found, err
		}
		w.made++
		w.log = append(w.log, fmt.Sprintf("c%d: %s", s.commit, s.why))
		require.LessOrEqual(t, w.made, len(w.commits)*w.maxRuns, "it goes on for ever")
		before := w.made
		w.measure(s.commit)
		require.Equal(t, before, w.made)
	}
}

func names(commits []Commit) (ids []string) {
	for _, c := range commits {
		ids = append(ids, c.ID)
	}
	return ids
}

// slowFrom is a history that one commit made slower by half.
func slowFrom(t *testing.T, culprit int) func(int) (Profile, string) {
	fast, slow := seconds(t, "1"), seconds(t, "1.5")
	return func(i int) (Profile, string) {
		if i >= culprit {
			return slow, ""
		}
		return fast, ""
	}
}

// Whatever commit it was, and whatever profiles are there already, it is found, by no
// more runs than halving what they leave takes.
func TestEachCulpritIsFoundFromEachSetOfProfilesWithTheFewestRuns(t *testing.T) {
	tried := 0
	for n := 2; n <= 10; n++ {
		for culprit := 1; culprit < n; culprit++ {
			for there := range 1 << n {
				w := newWorld(n, slowFrom(t, culprit))
				good, bad, ends := 0, n-1, 2
				for i := range n {
					if there&(1<<i) == 0 {
						continue
					}
					w.measure(i)
					switch {
					case i == 0 || i == n-1:
						ends--
					case i < culprit:
						good = max(good, i)
					default:
						bad = min(bad, i)
					}
				}
				found, err := w.search(t)
				require.NoError(t, err)
				require.Equal(t, []string{fmt.Sprintf("c%d", culprit)}, names(found[0].Culprits))
				require.Equal(t, FoundOne, found[0].Result)
				require.LessOrEqual(t, w.made, ends+bits.Len(uint(bad-good-1)), "culprit %d, profiles %b of %d", culprit, there, n)
				require.LessOrEqual(t, w.made, 2+bits.Len(uint(n-2)))

				// Confirmed, it takes one run more of each of the two that decide.
				fewest := w.made
				w.minRuns = 2
				_, err = w.search(t)
				require.NoError(t, err)
				require.Equal(t, fewest+2, w.made)
				tried++
			}
		}
	}
	require.Greater(t, tried, 10000)
}

// What is left after each run is not more than was announced before it.
func TestRemainingRunsAreNeverMoreThanAnnounced(t *testing.T) {
	for n := 2; n <= 20; n++ {
		for culprit := 1; culprit < n; culprit++ {
			w := newWorld(n, slowFrom(t, culprit))
			said := 1 << 20
			for {
				s, _, err := w.next()
				require.NoError(t, err)
				if s == noStep {
					break
				}
				require.Less(t, s.remaining, said)
				said = s.remaining
				w.measure(s.commit)
			}
		}
	}
}

// As git bisect does: what is left of the neighbours that can't be measured is reported.
func TestBrokenCommitsAreSkipped(t *testing.T) {
	for broken, want := range map[string][]string{
		"":      {"c5"},
		"3":     {"c5"},
		"36":    {"c5"},
		"4":     {"c4", "c5"},
		"45":    {"c4", "c5", "c6"},
		"12345": {"c1", "c2", "c3", "c4", "c5", "c6"},
	} {
		slow := slowFrom(t, 5)
		w := newWorld(9, func(i int) (Profile, string) {
			if strings.Contains(broken, fmt.Sprint(i)) {
				return Profile{}, "the command exits with 2"
			}
			return slow(i)
		})
		found, err := w.search(t)
		require.NoError(t, err)
		require.Equal(t, want, names(found[0].Culprits), broken)
		require.Equal(t, len(want) == 1, found[0].Result == FoundOne)
		for _, c := range want[:len(want)-1] {
			require.Contains(t, found[0].Notes, c+" can't be measured: the command exits with 2")
		}
	}
	for end, want := range map[int]string{
		0: "cannot bisect: the good end c0 can't be measured: no disk; take another commit",
		8: "cannot bisect: the bad end c8 can't be measured: no disk; take another commit",
	} {
		w := newWorld(9, slowFrom(t, 5))
		w.broken[end] = "no disk"
		_, err := w.search(t)
		require.EqualError(t, err, want)
	}
}

// An example that a commit lacks, or that failed there, reports nothing of that commit.
func TestCommitWithoutTheExampleIsSkipped(t *testing.T) {
	slow := slowFrom(t, 5)
	gone := map[int]Example{3: {"b", Measured{Status: StatusOK}}, 4: {"a", Measured{Status: StatusFailed}}, 6: {"a", Measured{Status: StatusOK, Memory: amount(t, "1")}}}
	w := newWorld(9, func(i int) (Profile, string) {
		if e, ok := gone[i]; ok {
			return Profile{Examples: []Example{e}}, ""
		}
		return slow(i)
	})
	found, err := w.search(t)
	require.NoError(t, err)
	require.Equal(t, []string{"c3", "c4", "c5"}, names(found[0].Culprits))
	require.Equal(t, []string{"c3 can't be measured: the example is missing", "c4 can't be measured: the example is failed"}, found[0].Notes)
	require.Equal(t, 1, len(w.runs[4]), "it is not run again")

	w = newWorld(9, slow)
	w.only = []string{"other", "a"}
	found, err = w.search(t)
	require.NoError(t, err)
	require.Equal(t, NotMeasured, found[0].Result)
	require.Equal(t, []string{"in c0 the example is missing"}, found[0].Notes)
	require.Equal(t, []string{"c5"}, names(found[1].Culprits))
}

// Each run measures every example, so two searches share their runs.
func TestExamplesShareTheirRuns(t *testing.T) {
	w := newWorld(33, func(i int) (Profile, string) {
		a, b, c := "1", "2", "3"
		if i >= 9 {
			a = "2"
		}
		if i >= 10 {
			b = "3"
		}
		return seconds(t, a, "b="+b, "c="+c), ""
	})
	found, err := w.search(t)
	require.NoError(t, err)
	require.Equal(t, []string{"c9"}, names(found[0].Culprits))
	require.Equal(t, []string{"c10"}, names(found[1].Culprits))
	require.Equal(t, NotWorse, found[2].Result)
	require.LessOrEqual(t, w.made, 2+5+2)
}

func TestUnusableEndsAreReportedWithTheMeasurements(t *testing.T) {
	w := newWorld(9, func(i int) (Profile, string) {
		p := seconds(t, fmt.Sprint("1.0", i/4), "b=2")
		if i == 0 {
			return p, ""
		}
		return Profile{Examples: p.Examples[:1]}, ""
	})
	_, err := w.search(t)
	require.EqualError(t, err, `cannot bisect: in c8 no example is worse than in c0; limits: duration +10 %
  "a": not worse, confidence 99.62 %: duration (s) 1 -> 1.02, +0.02 s (+2 %); peak memory (MB) -, -
  "b": not measured; in c8 the example is missing`)

	w = newWorld(9, slowFrom(t, 1))
	w.canRun = false
	_, err = w.search(t)
	require.EqualError(t, err, "cannot bisect: the good end c0 has no profile; give the command that measures one after --")
}

// By profiles alone the answer is as narrow as they are.
func TestWithoutACommandProfilesAloneDecide(t *testing.T) {
	w := newWorld(9, slowFrom(t, 5))
	w.canRun = false
	for _, i := range []int{0, 3, 6, 8} {
		w.measure(i)
	}
	found, err := w.search(t)
	require.NoError(t, err)
	require.Equal(t, []string{"c4", "c5", "c6"}, names(found[0].Culprits))
	require.Equal(t, []string{"2 of them have no profile: give the command that measures one after --"}, found[0].Notes)
}

// Slower, mended, and slower again: the last is why it is slow now.
func TestHistoryWithSeveralChangesIsReported(t *testing.T) {
	of := func(i int) (Profile, string) {
		if i >= 2 && i < 5 || i >= 7 {
			return seconds(t, "1.5"), ""
		}
		return seconds(t, "1"), ""
	}
	w := newWorld(9, of)
	w.measure(3)
	w.measure(5)
	found, err := w.search(t)
	require.NoError(t, err)
	require.Equal(t, []string{"c7"}, names(found[0].Culprits))
	require.Equal(t, []string{"c3 was worse before, and c6 was not: there is more than one change, and this is the last of them"}, found[0].Notes)
	require.Len(t, w.runs[3], surprised, "what contradicts is measured again")
	require.Len(t, w.runs[6], surprised)
}

// A run that is far off makes no culprit: it is measured again.
func TestAnOutlierIsMeasuredAgain(t *testing.T) {
	slow, met := slowFrom(t, 7), 0
	w := newWorld(9, func(i int) (Profile, string) {
		if i == 2 && met == 0 {
			met++
			return seconds(t, "1.3"), "" // a clock that was locked
		}
		return slow(i)
	})
	w.measure(2)
	w.measure(4)
	found, err := w.search(t)
	require.NoError(t, err)
	require.Equal(t, []string{"c7"}, names(found[0].Culprits))
	require.Greater(t, len(w.runs[2]), 1)
	require.Empty(t, found[0].Notes)
}

// Near the limit, runs of the commit and of the good end take turns, and both end.
func TestGrowthNearTheLimitIsMeasuredAgain(t *testing.T) {
	w := newWorld(3, func(i int) (Profile, string) {
		return seconds(t, []string{"1", "1", "1.12"}[i]), ""
	})
	found, err := w.search(t)
	require.NoError(t, err)
	require.Equal(t, []string{"c2"}, names(found[0].Culprits))
	require.Contains(t, w.log, `c2: the growth of "a" in c2 is near the limit for its noise`)
	require.Contains(t, w.log, `c0: the growth of "a" in c2 is near the limit for its noise`)
	require.Less(t, w.made, 3*5)

	w = newWorld(3, func(i int) (Profile, string) { // at the limit no number of runs helps
		return seconds(t, []string{"1", "1", "1.1001"}[i]), ""
	})
	w.maxRuns = 2
	found, err = w.search(t)
	require.NoError(t, err)
	require.Less(t, *found[0].Confidence, Percent(sureEnough))
	require.LessOrEqual(t, w.made, 6)
	r := BisectReport{Examples: found}
	r.finish()
	require.False(t, r.OK)
	require.True(t, slices.ContainsFunc(found, func(f Found) bool { return f.NoisePct == 2 }))
}

// A few repeated runs may be equal by chance.
func TestAssumedNoiseAppliesBelowFiveRepeatedRuns(t *testing.T) {
	for runs, want := range map[int]float64{1: .02, 5: .02, 6: 0} {
		w := newWorld(2, slowFrom(t, 1))
		for range runs {
			w.measure(0)
		}
		require.InDelta(t, want, w.scatter("a").duration, 1e-12, runs)
	}
}

// A commit without a number that the first one has, and that a limit needs, is not judged.
func TestCommitWithoutAMeasurementIsNotJudged(t *testing.T) {
	pct := Percent(10)
	of := func(duration, memory *Amount) []Profile {
		return []Profile{{Examples: []Example{{"a", Measured{Status: StatusOK, Duration: duration, Memory: memory}}}}}
	}
	one := amount(t, "1")
	for want, second := range map[string][]Profile{"": of(one, one), "duration_s is missing": of(nil, one), "peak_memory_mb is missing": of(one, nil)} {
		b := bisection{commits: make([]Commit, 2), runs: [][]Profile{of(one, one), second}, broken: make([]string, 2),
			limits: Limits{DurationPct: &pct, MemoryPct: &pct}}
		verdicts, why := b.look("a", noise{})
		require.Equal(t, want, why[1])
		require.Equal(t, want != "", verdicts[1] == nil, want)
	}
}
