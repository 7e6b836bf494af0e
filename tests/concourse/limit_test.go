//go:build e2e

package concourse

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// What the charm reads out of the release's help, without a terminal, is what the release
// knows; the web knows the limit that replaces it.
func TestReleaseReportsWhetherItsWorkersLimitThemselves(t *testing.T) {
	workers, web := known(t, "worker"), known(t, "web")
	h := withRelease(t)
	own, err := concourse.LimitsItself(t.Context(), h)
	require.NoError(t, err)
	require.Equal(t, slices.Contains(workers, "CONCOURSE_MAX_ACTIVE_TASKS"), own)
	require.Contains(t, web, concourse.TaskLimitKey)
	require.Contains(t, web, concourse.StrategyKey)
}

// withRelease returns a folder in which the release is installed.
func withRelease(t *testing.T) host.Host {
	t.Helper()
	dir, err := unpacked()
	require.NoError(t, err)
	h := host.New(t.TempDir())
	require.NoError(t, h.MkdirAll(filepath.Dir(release.BinDir), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(dir, "bin"), h.Path(release.BinDir)))
	return h
}

// The release itself judges flags, and starts no web for it.
func TestReleaseNamesWrongFlags(t *testing.T) {
	needRelease(t)
	refused, err := concourse.RefusedFlags(t.Context(), withRelease(t), []string{"--max-checks-per-second=10", "--max-check-per-second=10",
		"--resource-checking-interval=often", "--enable-across-step", "--enable-across-step=maybe"})
	require.NoError(t, err)
	var why []string
	for _, r := range refused {
		why = append(why, r.Flag+": "+r.Why)
	}
	require.Equal(t, []string{"--max-check-per-second=10: unknown flag `max-check-per-second'",
		"--resource-checking-interval=often: invalid argument for flag `--resource-checking-interval' (expected time.Duration): time: invalid duration \"often\"",
		"--enable-across-step=maybe: bool flag `--enable-across-step' cannot have an argument"}, why)
}
