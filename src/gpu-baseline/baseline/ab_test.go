package baseline

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// play makes rounds of two programs until no other is wanted.
func play(d *duel, a, b func() Profile) []Compared {
	for {
		again, all := d.more()
		if !again {
			return all
		}
		d.a, d.b = append(d.a, a()), append(d.b, b())
	}
}

func newDuel() *duel {
	pct := Percent(10)
	return &duel{limits: Limits{DurationPct: &pct, Together: true}, noise: 0.02, maxRounds: 12}
}

// Of what is reported, hardly anything is wrong, and most of it early.
func TestAnswerOfABIsRightWhateverTheNoise(t *testing.T) {
	for name, c := range map[string]struct {
		run    draw
		growth float64 // the limit is 0.1
		want   Answer
		told   float64 // at least, of all comparisons
		rounds int     // on average, at most
	}{
		"the same":              {normal(0.02), 1, NoWorse, 1, 4},
		"slower":                {normal(0.02), 1.2, Worse, 1, 4},
		"slower, within":        {normal(0.02), 1.05, NoWorse, 0.95, 6},
		"a little beyond":       {normal(0.02), 1.13, Worse, 0.85, 8},
		"noisy and the same":    {normal(0.05), 1, NoWorse, 0.97, 6},
		"noisy and slower":      {normal(0.05), 1.3, Worse, 0.97, 5},
		"two modes, the same":   {modes, 1, NoWorse, 0.9, 8},
		"two modes, slower":     {modes, 1.3, Worse, 0.97, 6},
		"two modes, far slower": {modes, 2, Worse, 0.99, 5},
		"outliers, the same":    {outliers, 1, NoWorse, 0.8, 6},
		"outliers, slower":      {outliers, 1.25, Worse, 0.8, 6},
	} {
		r := rand.New(rand.NewSource(17))
		const times = 1000
		n, rounds := map[Answer]int{}, 0
		for range times {
			drift := 1.0
			d := newDuel()
			all := play(d, func() Profile {
				drift *= 1.01 // the GPU gets warm
				return one(c.run(r, drift))
			}, func() Profile { return one(c.run(r, drift*c.growth)) })
			n[all[0].Result]++
			rounds += len(d.b)
		}
		wrong := times - n[c.want] - n[Unclear]
		t.Logf("%s: %v, %.1f rounds", name, n, float64(rounds)/times)
		require.LessOrEqual(t, wrong, 30, name)
		require.GreaterOrEqual(t, float64(n[c.want])/times, c.told, name)
		require.LessOrEqual(t, rounds/times, c.rounds, name)
	}
}

func TestStatusesDecideWithoutNoise(t *testing.T) {
	ok, failed := one(perUnit), Profile{Examples: []Example{{"a", Measured{Status: StatusFailed}}}}
	for name, c := range map[string]struct {
		a, b Profile
		want Answer
	}{
		"ok":             {ok, ok, NoWorse},
		"failed in B":    {ok, failed, Worse},
		"failed in A":    {failed, ok, NotInAll},
		"failed in both": {failed, failed, NotInAll},
		"missing in B":   {ok, Profile{}, Worse},
		"new in B":       {Profile{}, ok, NotInAll},
	} {
		d := newDuel()
		all := play(d, func() Profile { return c.a }, func() Profile { return c.b })
		require.Equal(t, c.want, all[0].Result, name)
		require.Len(t, d.b, firstRounds, name)
	}
	n := 0
	all := play(newDuel(), func() Profile { return ok }, func() Profile {
		if n++; n == 3 {
			return failed
		}
		return ok
	})
	require.Equal(t, Worse, all[0].Result, "it fails now and then")

	d := newDuel()
	d.only = []string{"b"}
	all = play(d, func() Profile { return ok }, func() Profile { return ok })
	require.Equal(t, NotInAll, all[0].Result)
}

func TestABThatIsNotClearEndsWithTheLastRound(t *testing.T) {
	d, n := newDuel(), 0
	all := play(d, func() Profile { return one(perUnit) }, func() Profile {
		n++
		return one(Amount((1 + 0.2*float64(n%2)) * perUnit)) // on average at the limit
	})
	require.Equal(t, Unclear, all[0].Result)
	require.Len(t, d.b, d.maxRounds)
}

// A millisecond and a second each: one of both limits alone is nothing.
func TestABCombinesItsLimits(t *testing.T) {
	for _, c := range []struct {
		a, b Amount
		want Answer
	}{{10_000, 12_000, NoWorse}, {60 * perUnit, 63 * perUnit, NoWorse}, {10 * perUnit, 15 * perUnit, Worse}} {
		d := newDuel()
		d.limits.Duration = amount(t, "1")
		all := play(d, func() Profile { return one(c.a) }, func() Profile { return one(c.b) })
		require.Equal(t, c.want, all[0].Result, "%+v", c)
	}
}
