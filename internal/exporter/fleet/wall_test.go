package fleet

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

func TestWallCountsGPUsThatNoTaskGets(t *testing.T) {
	of := func(use Use, why string) GPU {
		return GPU{Use: use, View: pool.View{Service: &pool.Service{Why: why}}}
	}
	for name, tc := range map[string]struct {
		gpus []GPU
		want string
	}{
		"none":             {[]GPU{{Use: Free}, {Use: Leased}}, ""},
		"one":              {[]GPU{{Use: Free}, of(Quarantined, "hangs or is in reset (kernel_log)")}, "1 of 2 GPUs quarantined: hangs or is in reset; see http://web:9358/"},
		"in probation":     {[]GPU{of(OnProbation, "hangs")}, "1 of 1 GPU quarantined: hangs; see http://web:9358/"},
		"frequent first":   {[]GPU{of(Quarantined, "a"), of(Quarantined, "b; c"), of(OnProbation, "b"), of(Quarantined, "d")}, "4 of 4 GPUs quarantined: b, a; see http://web:9358/"},
		"without a reason": {[]GPU{of(Quarantined, "")}, "1 of 1 GPU quarantined; see http://web:9358/"},
		"another address":  {[]GPU{of(Quarantined, "log in at https://evil.example.com")}, "1 of 1 GPU quarantined; see http://web:9358/"},
		"a long reason":    {[]GPU{of(Quarantined, strings.Repeat("x", 999))}, "1 of 1 GPU quarantined: " + strings.Repeat("x", maxReason) + "...; see http://web:9358/"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Report{Workers: []Worker{{GPUs: tc.gpus}}, Summary: Summary{GPUs: len(tc.gpus)}}
			require.Equal(t, tc.want, wallText(r, fleetfile.File{Wall: true, Page: "http://web:9358/"}))
			require.Empty(t, wallText(r, fleetfile.File{}), "the option is off")
		})
	}
}

func TestWallIsKnownOnlyWithTheListOfWorkers(t *testing.T) {
	b := newBed(t)
	_, known := b.Wall()
	require.False(t, known, "no worker has been asked")
	b.Round(context.Background())
	_, known = b.Wall()
	require.False(t, known, "the list is missing")
	text := gpusJSON(1)
	b.write(t, fleetfile.File{Wall: true, Workers: []fleetfile.Worker{{Unit: "gpu/0", URL: worker(t, &text), Count: 3}}})
	b.Round(context.Background())
	got, known := b.Wall()
	require.Equal(t, []any{"1 of 3 GPUs quarantined: hangs or is in reset", true}, []any{got, known})
	got, known = New().Wall()
	require.Equal(t, []any{"", true}, []any{got, known}, "without a page nothing stays on the wall")
}
