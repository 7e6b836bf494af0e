//go:build e2e

package concourse

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// What the charm reads out of the release's help, without a terminal, is what
// the release knows; the web knows the limit that stands in for it.
func TestReleaseTellsWhetherItsWorkersLimitThemselves(t *testing.T) {
	workers, web := known(t, "worker"), known(t, "web")
	dir, err := unpacked()
	require.NoError(t, err)
	h := host.New(t.TempDir())
	require.NoError(t, h.MkdirAll(filepath.Dir(release.BinDir), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(dir, "bin"), h.Path(release.BinDir)))
	own, err := concourse.LimitsItself(t.Context(), h)
	require.NoError(t, err)
	require.Equal(t, slices.Contains(workers, "CONCOURSE_MAX_ACTIVE_TASKS"), own)
	require.Contains(t, web, concourse.TaskLimitKey)
	require.Contains(t, web, concourse.StrategyKey)
}
