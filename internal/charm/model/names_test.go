package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWorkerHasNoNameOfAnotherUnit(t *testing.T) {
	for name, tc := range map[string]struct {
		last, now, want map[string]string // names by unit
	}{
		"names made from units": {nil, map[string]string{"gpu/1": "gpu-1-0badcafe", "gpu/11": "gpu-11-0badcafe"}, map[string]string{"gpu/1": "gpu-1-0badcafe", "gpu/11": "gpu-11-0badcafe"}},
		"the name of another":   {nil, map[string]string{"gpu/1": "gpu-1-0badcafe", "bad/0": "gpu-1-0badcafe"}, map[string]string{"gpu/1": "gpu-1-0badcafe"}},
		"before that one came":  {map[string]string{"bad/0": "gpu-1-0badcafe"}, map[string]string{"gpu/1": "gpu-1-0badcafe", "bad/0": "gpu-1-0badcafe"}, map[string]string{"gpu/1": "gpu-1-0badcafe"}},
		"its future name":       {nil, map[string]string{"gpu/1": "", "bad/0": "gpu-1-0badcafe"}, nil},
		"a kept host name":      {map[string]string{"gpu/1": "host"}, map[string]string{"gpu/1": "host", "bad/0": "host"}, map[string]string{"gpu/1": "host"}},
		"both new":              {nil, map[string]string{"gpu/1": "host", "bad/0": "host"}, nil},
		"none":                  {nil, map[string]string{"gpu/1": "", "gpu/2": ""}, nil},
		"of another model":      {nil, map[string]string{"remote-12ab/0": "gpu-1-0badcafe"}, map[string]string{"remote-12ab/0": "gpu-1-0badcafe"}},
		"of another model, and a unit is named so": {nil, map[string]string{"gpu/1": "gpu-1-aaaaaaaa", "remote-12ab/1": "gpu-1-bbbbbbbb"}, map[string]string{"gpu/1": "gpu-1-aaaaaaaa", "remote-12ab/1": "gpu-1-bbbbbbbb"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := workersNamed(tc.now)
			ownNames(now, workersNamed(tc.last))
			got := map[string]string{}
			for _, w := range now {
				if w.Name != "" {
					got[w.Unit] = w.Name
				} else {
					require.Equal(t, tc.now[w.Unit] != "", w.DataProblem != "", "the status names it")
				}
			}
			require.Equal(t, len(tc.want), len(got))
			for unit, name := range tc.want {
				require.Equal(t, name, got[unit])
			}
		})
	}
}

func workersNamed(names map[string]string) map[string]Worker {
	all := map[string]Worker{}
	for unit, name := range names {
		all["tsa:1 "+unit] = Worker{Unit: unit, Name: name}
	}
	return all
}
