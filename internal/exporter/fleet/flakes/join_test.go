package flakes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/concourse/flake"
	"concourse-ci-machine/internal/pool/verdict"
)

func FuzzVerdicts(f *testing.F) {
	f.Add(`[{"handle":"` + handle(1) + `","ended":"2026-01-01T00:00:00Z","exit":null,"kind":"gpu","gpus":["0000:03:00.0"]}]`)
	f.Add(`{"entries":[]}`)
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

// A worker with new containers in each round evicts no container that others still show.
func TestOneWorkerEvictsNoOthers(t *testing.T) {
	text, err := json.Marshal(entriesOf(0, 2000))
	require.NoError(t, err)
	all, err := decode(strings.NewReader(string(text)))
	require.NoError(t, err)
	require.Len(t, all, verdict.MaxEntries)

	j := newJoiner()
	for round := range maxContainers/verdict.MaxEntries + 10 {
		j.changed = false
		j.judge("honest", entriesOf(0, verdict.MaxEntries))
		require.Equal(t, round == 0, j.changed)
		from := 1_000_000 + round*verdict.MaxEntries
		j.judge("odd", entriesOf(from, from+verdict.MaxEntries))
		require.LessOrEqual(t, len(j.containers), maxContainers)
	}
}

func TestImpossibleVerdictsAreRefused(t *testing.T) {
	for _, text := range []string{"", "{}", "[", `[{"ended":"x"}]`, strings.Repeat(" ", maxAnswer+1)} {
		_, err := decode(strings.NewReader(text))
		require.Error(t, err)
	}
	all, err := decode(strings.NewReader(`[{"handle":"../x","kind":"gpu"},{"handle":"` + handle(1) + `","kind":"odd"},{"handle":"` + handle(2) + `","kind":"task"}]`))
	require.NoError(t, err)
	require.Len(t, all, 1)
}
