package concourse

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestReleaseRefusesFlagsThatItDoesNotTake(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Root(t))
	program := h.Path(release.BinDir+"/concourse") + " web "
	const unknown = "unknown flag `max-check-per-second'"
	h.Runner = hosttest.NewRunner(t).Answer(program+"--enable-across-step --help", "Usage:").
		Fail(program+"--max-check-per-second=1 --help", 1, "error: "+unknown).
		Answer(program+"--max-checks-per-second=1 --help", "Usage:")
	refused, err := RefusedFlags(t.Context(), h, []string{"--enable-across-step", "--max-check-per-second=1", "--max-checks-per-second=1"})
	require.NoError(t, err)
	require.Equal(t, []RefusedFlag{{"--max-check-per-second=1", unknown}}, refused)
	h.Runner = hosttest.NewRunner(t).Fail(program[:len(program)-1], -1, "")
	_, err = RefusedFlags(t.Context(), h, []string{"--enable-across-step"})
	require.Error(t, err, "it does not run")
}
