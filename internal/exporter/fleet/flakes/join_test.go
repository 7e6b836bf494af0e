package flakes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func FuzzVerdicts(f *testing.F) {
	f.Add(`[{"handle":"` + handle(1) + `","ended":"2026-01-01T00:00:00Z","exit":null,"kind":"gpu","gpus":["0000:03:00.0"]}]`)
	f.Add(`[{"handle":"` + handle(1) + `","kind":"machine","reason":"disk-full","gpus":null}]`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := decode(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, e := range all {
			require.Len(t, e.Handle, 36)
			require.LessOrEqual(t, len(e.GPUs), maxGPUs)
		}
	})
}

// entriesOf returns verdicts from one number to another, without the latter.
func entriesOf(from, to int) (out []entry) {
	for n := from; n < to; n++ {
		out = append(out, entry{Handle: handle(n), Kind: flake.ByMachine})
	}
	return out
}

// A fleet of 400 workers serves 200 verdicts each, all the time.
func TestVerdictsOfManyWorkersStay(t *testing.T) {
	j := newJoiner()
	for round := range 2 {
		j.changed = false
		for w := range 400 {
			j.judge(fmt.Sprint("w", w), entriesOf(w*verdict.MaxEntries, (w+1)*verdict.MaxEntries))
		}
		require.Equal(t, round == 0, j.changed, "nothing is new in the second round")
	}
}

// A worker that claims new containers in each round evicts no container of others, and its
// names take bounded memory.
func TestOneWorkerEvictsNoOthers(t *testing.T) {
	j := newJoiner()
	fleet := Seen{Workers: []Worker{{Name: "honest"}, {Name: "odd", GPUs: make([]GPU, 1024)}}}
	for round := range maxContainers/verdict.MaxEntries + 10 {
		j.changed = false
		j.judge("honest", entriesOf(0, verdict.MaxEntries))
		require.Equal(t, round == 0, j.changed)
		from := 1_000_000 + round*verdict.MaxEntries
		odd := entriesOf(from, from+verdict.MaxEntries)
		for i := range odd {
			odd[i].GPUs = names{fmt.Sprint(round, i)}
		}
		j.judge("odd", odd)
		if round%100 == 0 {
			for i := range fleet.Workers[1].GPUs {
				fleet.Workers[1].GPUs[i] = GPU{PCI: fmt.Sprint(i), Holders: []string{handle(2_000_000 + round*1024 + i)}}
			}
			j.see(fleet, jobexporter.Site{})
		}
		require.LessOrEqual(t, len(j.claimed["odd"]), maxClaimed)
		require.LessOrEqual(t, len(j.gpus["odd"]), maxNames)
	}
	require.Len(t, j.claimed["honest"], verdict.MaxEntries)
	j.see(Seen{}, jobexporter.Site{})
	require.Empty(t, j.claimed, "of workers that left")
}

// Root of one worker knows the handles of others from the fleet page. It reports them as its
// own holders and judges them.
func TestOnlyTheWorkerOfATaskJudgesIt(t *testing.T) {
	for name, first := range map[string]bool{"before Concourse lists the task": true, "after that": false} {
		t.Run(name, func(t *testing.T) {
			j := newJoiner()
			site := jobexporter.Site{Builds: map[string]jobexporter.Build{handle(1): {ID: 7, Step: "unit", Worker: "honest"}}}
			fleet := Seen{Workers: []Worker{{Name: "honest"}, {Name: "odd", GPUs: []GPU{{PCI: "0000:03:00.0", Holders: []string{handle(1)}}}}}}
			if first {
				j.see(fleet, jobexporter.Site{})
				j.judge("odd", entriesOf(1, 2))
			}
			j.see(fleet, site)
			j.judge("odd", entriesOf(1, 2))
			j.see(fleet, site)
			require.Equal(t, Answer{}, j.answers()[handle(1)])
			runs := j.join([]flake.Run{{Key: flake.Key{Step: "unit"}, Build: 7, Worker: "honest", Result: flake.Failed}})
			require.Empty(t, runs[0].Cause)
			require.Empty(t, runs[0].GPUs)
			j.judge("honest", entriesOf(1, 2))
			require.True(t, j.answers()[handle(1)].Infrastructure)
		})
	}
}

// The answer goes into a comment on a pull request, so a worker only chooses one of our codes.
func TestCommentHasNoTextOfAWorker(t *testing.T) {
	for code, want := range map[string]string{"disk-full": "disk-full", "": "no reason given", "buy at evil example": "no reason given"} {
		j := newJoiner()
		j.see(Seen{}, jobexporter.Site{Builds: map[string]jobexporter.Build{handle(1): {ID: 7, Step: "unit", Worker: "w"}}})
		all, err := decode(strings.NewReader(`[{"handle":"` + handle(1) + `","kind":"machine","reason":"` + code + `","text":"buy at evil example"}]`))
		require.NoError(t, err)
		j.judge("w", all)
		require.Equal(t, "failed by infrastructure, run again (machine: "+want+")", j.answers()[handle(1)].Sentence)
	}
}

func TestImpossibleVerdictsAreRefused(t *testing.T) {
	for _, text := range []string{"", "{}", "[", `[{"ended":"x"}]`, "[" + strings.Repeat("{},", verdict.MaxEntries) + "{}]", strings.Repeat(" ", maxAnswer+1)} {
		_, err := decode(strings.NewReader(text))
		require.Error(t, err)
	}
	all, err := decode(strings.NewReader(`[{"handle":"../x","kind":"gpu"},{"handle":"` + handle(1) + `","kind":"odd"},{"handle":"` + handle(2) + `","kind":"task"}]`))
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// The end of a container identifies a run only if no other container is as near.
func TestContainerOfARunIsFoundByItsEnd(t *testing.T) {
	at := hosttest.Now
	ended := func(after time.Duration) *container { return &container{verdict: &entry{Ended: at.Add(after)}} }
	running := &container{}
	exact, after, before := ended(0), ended(time.Second), ended(-time.Second)
	last, late := ended(near), ended(near+1)
	for name, c := range map[string]struct {
		all  []*container
		want *container
	}{
		"none":                             {nil, nil},
		"the only one has not ended":       {[]*container{running}, running},
		"one of two has not ended":         {[]*container{running, after}, after},
		"two have not ended":               {[]*container{running, {}}, nil},
		"the only one ended":               {[]*container{last}, last},
		"the only one ended too late":      {[]*container{late}, nil},
		"the nearest":                      {[]*container{last, after, late}, after},
		"two are as near":                  {[]*container{after, before}, nil},
		"a third one is nearer":            {[]*container{after, before, exact}, exact},
		"two are as near, but not nearest": {[]*container{exact, after, before}, exact},
	} {
		t.Run(name, func(t *testing.T) { require.Same(t, c.want, nearest(c.all, at, near)) })
	}
}
