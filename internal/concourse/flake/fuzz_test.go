package flake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runsOf makes runs of a few tasks from bytes: each run takes four.
func runsOf(data []byte) (all []Run) {
	results := []Result{Passed, Failed, Errored, Aborted, ""}
	causes := []Cause{"", ByGPU, ByMachine, ByNeighbour, ByConcourse, ByTask, Unclear}
	for ; len(data) >= 4; data = data[4:] {
		a, b, c, d := data[0], data[1], data[2], data[3]
		r := Run{Key: Key{Job: string('a' + rune(a%3)), Step: string('a' + rune(a/3%2))}, Build: len(all) / 2,
			Inputs: []string{"", "x", "y", "z"}[b%4], Result: results[b/4%5], Cause: causes[c%7], Worker: []string{"", "w1", "w2"}[c/7%3],
			Time: time.Unix(int64(d)*300, 0)}
		for g := range d % 4 {
			r.GPUs = append(r.GPUs, string('0'+rune(g*b%4)))
		}
		all = append(all, r)
	}
	return all
}

// Whatever ran, the numbers of a finding fit each other.
func FuzzFind(f *testing.F) {
	f.Add([]byte("aaaabbbbccccddddeeee"))
	var seed []byte
	for n := range byte(60) {
		seed = append(seed, 0, n%2*4+1+n/2%3, 7, n)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		all := runsOf(data)
		r := Find(all)
		for _, one := range r.Flakes {
			require.True(t, one.Failures >= 1 && one.Failures <= one.Runs && one.Runs <= len(all), "%+v", one)
			require.True(t, one.Rate > 0 && one.Rate <= 1)
			require.False(t, one.Last.Before(one.Since))
			require.LessOrEqual(t, len(one.Builds), maxBuilds)
			require.Equal(t, one.Kind == KindTest, one.Place == nil)
			if one.Place != nil {
				r.Places = append(r.Places, *one.Place)
			}
		}
		for _, p := range r.Places {
			require.True(t, p.Failures <= p.Runs && p.OthersFail <= p.OthersRuns && p.Worker != "", "%+v", p)
			require.True(t, p.Probability >= 0 && p.Probability <= 1, "%+v", p)
		}
		for _, l := range r.Lost {
			require.True(t, l.Cause.Infrastructure())
		}
	})
}
