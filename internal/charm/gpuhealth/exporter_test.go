package gpuhealth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestFailuresOfTheExporterAreNamed(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Root(t))
	for name, c := range map[string]struct {
		code int
		body string
		want string
	}{
		"another status":  {503, "busy", "the exporter answers 503"},
		"another program": {200, "<html>", "does not answer with its list of GPUs"},
		"no GPU":          {200, `{"gpus":[]}`, "lists no GPU"},
		"too much":        {200, `{"gpus":[` + strings.Repeat(" ", ExporterLimit) + `]}`, "does not answer with its list of GPUs"},
		"one":             {200, `{"gpus":[{"pci_bus_id":"0000:03:00.0"}]}`, ""},
	} {
		r, err := Fetch(t.Context(), h, hosttest.NewServer(t, c.code, c.body))
		if c.want == "" {
			require.NoError(t, err, name)
			require.Len(t, r.GPUs, 1)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.Empty(t, r.GPUs, name)
	}
	_, err := Fetch(t.Context(), h, "http://127.0.0.1:1/")
	require.EqualError(t, err, "the exporter does not answer")
	_, err = Fetch(t.Context(), h, "")
	require.ErrorContains(t, err, "watches this machine, not CHARM_ROOT")
}

func TestNumbersOfAnotherProgramArePlausible(t *testing.T) {
	var got map[string]any
	require.NoError(t, decodeSafe([]byte(`{"a\u0000":9007199254740992,"b":-9007199254740994,"c":[9007199254740994,"\u001b"],"d":true}`), &got))
	require.Equal(t, map[string]any{"a?": float64(1 << 53), "b": nil, "c": []any{nil, "?"}, "d": true}, got)
	require.Error(t, decodeSafe([]byte(`{"a":1e999}`), &got))
	require.Equal(t, strings.Repeat("x", maxText), Printable(strings.Repeat("x", maxText)))
	require.Equal(t, strings.Repeat("x", maxText)+"...", Printable(strings.Repeat("x", maxText+1)))
}

// gpus returns a list of n healthy GPUs, changed one after the other.
func gpus(n int, change func(i int, s *api.Status)) (all []api.Status) {
	for i := range n {
		s := api.Status{Index: i, PCI: fmt.Sprintf("0000:%02x:%02x.0", i/32+1, i%32), Up: true, Health: api.Health{State: health.Healthy}}
		if change != nil {
			change(i, &s)
		}
		all = append(all, s)
	}
	return all
}

// An action explains only some codes.
func TestHealthOfAnotherProgramIsPlausible(t *testing.T) {
	r, err := ParseReport([]byte(`{"gpus":[{"health":{"state":"tired","codes":[0,1,8,9]}},{"health":{"state":"warning"}},{}]}`))
	require.NoError(t, err)
	require.Equal(t, health.Unknown, r.GPUs[0].Health.State)
	require.Equal(t, []int{1, 8}, r.GPUs[0].Health.Codes)
	require.Equal(t, health.Warning, r.GPUs[1].Health.State)
	require.Equal(t, health.Unknown, r.GPUs[2].Health.State)
}

func TestCriticalGPUsAreCauses(t *testing.T) {
	causes := CriticalCauses(gpus(3, func(i int, s *api.Status) {
		s.Health = []api.Health{{State: health.Critical, Reason: "hangs", Codes: []int{1, 8}}, {State: health.Warning, Reason: "hot"}, {}}[i]
	}), wellknown.Commands{Unit: "gpu/0"})
	require.Len(t, causes, 1)
	require.Equal(t, "GPU 0 is critical: hangs", causes[0].Text)
	require.Len(t, causes[0].Commands, 2)
}

func TestReaderThatDoesNotEndExplainsHangs(t *testing.T) {
	runner := hosttest.NewRunner(t).On("read", func(c host.Command) (string, error) {
		require.True(t, c.ReadOnly)
		return "", &host.CommandError{Argv: c.Argv, Timeout: 9 * time.Second}
	})
	_, err := NewReader(runner, wellknown.Commands{}, "read")(t.Context())
	require.ErrorContains(t, err, "does not end within 9s: one hangs; see ")
	runner.Answer("read", "x")
	_, err = NewReader(runner, wellknown.Commands{}, "read", "gpus")(t.Context())
	require.EqualError(t, err, `cannot read the answer of "read gpus"`)
	report, err := NewReader(runner.Answer("read", `{"gpus":[{"index":1}]}`), wellknown.Commands{}, "read")(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, report.GPUs[0].Index)
	_, err = NewReader(runner.Answer("read", `{"gpus":[]}`), wellknown.Commands{}, "read")(t.Context())
	require.EqualError(t, err, "this machine has no GPU")
	runner.Fail("read", 1, "Permission denied")
	_, err = NewReader(runner, wellknown.Commands{}, "read")(t.Context())
	require.ErrorContains(t, err, "Permission denied")
	require.NotContains(t, err.Error(), "hangs")
	runner.On("read", func(host.Command) (string, error) { return "", errors.New("broken") })
	_, err = NewReader(runner, wellknown.Commands{}, "read")(context.Background())
	require.EqualError(t, err, "broken")
}
