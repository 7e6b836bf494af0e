//go:build e2e

package concourse

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// The promise of docs/how-to/quarantined-gpu.md: of two GPUs that are chosen by their numbers one
// goes away, and builds go on with the other, which keeps its number.
func TestChosenGPUThatIsMissingLeavesTheOtherToBuilds(t *testing.T) {
	tgz := releaseTarball(t)
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir(), tags: []string{"gpu"}}
	s.app = newApp(t, tgz, map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip", "gpu-device-ids": "0,1",
		"gpu-sharing": "exclusive"}, "no-gpu", "mi210x4")
	u := s.app.units[1]
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777))
	}
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.registers()
	s.logsIn()
	require.Contains(t, u.status(), "(GPU: 2x AMD)")

	u.must("rm /dev/dri/renderD128 /dev/dri/card1")
	// The tags follow a missing GPU late, because their change restarts the worker.
	gpus := func() string {
		for _, w := range s.workers() {
			for _, tag := range w.Tags {
				if n, is := strings.CutPrefix(tag, "gpu-count="); is {
					return n
				}
			}
		}
		return "none"
	}
	for _, ids := range []string{"0,1", "1"} {
		require.NoError(t, u.Model.SetConfig("gpu-device-ids", ids))
		s.app.hook(u, "config-changed")
		require.Contains(t, u.status(), "(GPU: 1x AMD)", ids)
		require.Contains(t, u.status(), "; 1 GPU m", ids) // it is cut
		require.Contains(t, u.checks(), "1 GPU missing: 0000:23:00.0\n", ids)
		until(t, func() bool { return gpus() == map[string]string{"0,1": "2", "1": "1"}[ids] }, "gpu-count of "+ids)
		out, err := s.execute("ls /dev/dri")
		require.NoError(t, err, out)
		require.Contains(t, out, "renderD129", ids)
		require.NotContains(t, out, "renderD128", ids)
	}
}
