package baseline

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeviationOfRepeatedRuns(t *testing.T) {
	require.Zero(t, deviation())
	require.Zero(t, deviation([]float64{1}, []float64{2}, nil))
	r := rand.New(rand.NewSource(1))
	var groups [][]float64
	for range 400 {
		var g []float64
		for range 2 + r.Intn(4) {
			g = append(g, r.NormFloat64()*0.03)
		}
		groups = append(groups, g)
	}
	require.InDelta(t, 0.03, deviation(groups...), 0.002)
	require.InDelta(t, 0.075, deviation([]float64{1, 1.13, 1.13, 1}, []float64{2, 2.13, 2}), 0.001, "two modes")
}

func TestMeans(t *testing.T) {
	require.Nil(t, mean(nil))
	require.Equal(t, Amount(4), *mean([]Amount{9, 3, 1}))
	require.Equal(t, Amount(maxAmount*perUnit), *mean([]Amount{maxAmount * perUnit, maxAmount * perUnit, maxAmount * perUnit, maxAmount * perUnit, maxAmount * perUnit}))
	require.Nil(t, relative([]Amount{0, 0}))
	require.Equal(t, []float64{0.5, 1.5}, relative([]Amount{1, 3}))
}

func TestBoundAgreesWithCompare(t *testing.T) {
	pct := Percent(10)
	for _, l := range []Limits{
		{DurationPct: &pct}, {Duration: amount(t, "0.2")}, {DurationPct: &pct, Duration: amount(t, "0.2")},
		{DurationPct: &pct, Duration: amount(t, "0.2"), Together: true},
	} {
		for _, base := range []string{"0", "0.5", "1", "2", "100"} {
			was := amount(t, base)
			bound := l.bound(*was, l.DurationPct, l.Duration)
			for _, more := range []Amount{-50, 50, 1e12} {
				is := Amount(min(bound, 1e13)) + more
				row := l.row(&Example{"a", Measured{Status: StatusOK, Duration: was, Memory: nil}}, &Example{"a", Measured{Status: StatusOK, Duration: &is, Memory: nil}})
				require.Equal(t, float64(is) > bound, row.Gates, "%s of %s, base %s: %s", l, is, base, row.Reasons)
			}
		}
	}
}

// draw is a run's duration.
type draw func(r *rand.Rand, value float64) Amount

func normal(deviation float64) draw {
	return func(r *rand.Rand, value float64) Amount {
		return Amount(value * (1 + deviation*r.NormFloat64()) * perUnit)
	}
}

// modes are two, 13 % apart, of which a run has one.
func modes(r *rand.Rand, value float64) Amount {
	return normal(0.005)(r, value*[]float64{1, 1.13}[r.Intn(2)])
}

// outliers are one run in twenty.
func outliers(r *rand.Rand, value float64) Amount {
	if r.Intn(20) == 0 {
		value *= 1.5
	}
	return normal(0.01)(r, value)
}

func one(d Amount) Profile {
	return Profile{Examples: []Example{{"a", Measured{Status: StatusOK, Duration: &d, Memory: nil}}}}
}

// Of the answers that claim to be sure by 95 % or more, as many are right: with the model's
// own noise, and with such as GPUs have. The seed is fixed, so that this can't fail by
// chance.
func TestConfidenceOfBisectIsCalibrated(t *testing.T) {
	for name, c := range map[string]struct {
		run     draw
		step    float64 // of the culprit; the limit is 0.1
		assumed float64
		runs    int     // on average, at most; there are 2 ends and 31 commits in between
		least   float64 // of all answers, how many are right
	}{
		"no noise":            {normal(0), 1.15, 0.02, 15, 1},
		"little noise":        {normal(0.005), 1.2, 0.02, 10, 1},
		"as assumed":          {normal(0.02), 1.2, 0.02, 12, 0.99},
		"a step near":         {normal(0.02), 1.14, 0.02, 20, 0.98},
		"more than assumed":   {normal(0.05), 1.3, 0.02, 18, 0.98},
		"told how much it is": {normal(0.05), 1.3, 0.05, 20, 0.98},
		"two modes":           {modes, 1.4, 0.05, 20, 0.95},
		"two modes, not told": {modes, 1.4, 0.02, 20, 0.95},
		"two modes, far":      {modes, 2, 0.02, 20, 0.95},
		"outliers":            {outliers, 1.3, 0.02, 15, 0.8},
	} {
		r := rand.New(rand.NewSource(17))
		const searches = 400
		right, told, sure, sureRight, made := 0, 0.0, 0, 0, 0
		for range searches {
			culprit := 1 + r.Intn(32)
			w := newWorld(33, func(i int) (Profile, string) {
				if i >= culprit {
					return one(c.run(r, c.step)), ""
				}
				return one(c.run(r, 1)), ""
			})
			w.noise, w.minRuns = c.assumed, 2
			found, err := w.search(t)
			made += w.made
			if err != nil {
				continue // the end seemed good: no answer
			}
			hit := found[0].Result == FoundOne && found[0].Culprits[0].ID == fmt.Sprintf("c%d", culprit)
			told += float64(*found[0].Confidence) / 100
			if hit {
				right++
			}
			if *found[0].Confidence >= sureEnough {
				sure++
				if hit {
					sureRight++
				}
			}
		}
		t.Logf("%s: %d of %d right, told %.1f; of %d sure ones %d right; %.1f runs each", name, right, searches, told, sure, sureRight, float64(made)/searches)
		require.GreaterOrEqual(t, float64(right)/searches, c.least, name)
		require.LessOrEqual(t, float64(made)/searches, float64(c.runs), name)
		require.GreaterOrEqual(t, float64(sureRight), math.Floor(0.95*float64(sure)), name)
	}
}
