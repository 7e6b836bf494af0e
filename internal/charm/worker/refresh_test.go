package worker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// systemd reads the units. The program is replaced by an existing one.
func TestSystemdUnderstandsTheRefreshUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed: the units' syntax was not checked")
	}
	d := Desire(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm"}), nil)
	dir := t.TempDir()
	var files []string
	for _, name := range []string{RefreshService, refreshTimer, RefreshUnit} {
		text := strings.ReplaceAll(mustFile(t, d, unitDir+name), dispatchBin, "/bin/true")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		files = append(files, filepath.Join(dir, name))
	}
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no"}, files...)...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		require.NotContains(t, line, "concourse-cdi-refresh", "systemd-analyze: %s", out)
	}
	require.NoError(t, err, "systemd-analyze: %s", out)
}

// The timer writes the same config as the hook, including the authorities of a relation.
func TestRefreshWritesTheConfigOfTheHook(t *testing.T) {
	for name, c := range map[string]struct {
		set         map[string]any
		authorities bool
	}{
		"shared":              {map[string]any{}, false},
		"private authorities": {map[string]any{}, true},
		"exclusive":           {map[string]any{"gpu-sharing": "exclusive"}, true},
		"other engines":       {map[string]any{"container-engines": "docker"}, false},
		"task-env":            {map[string]any{"task-env": "A=b"}, true},
		"no quarantine":       {map[string]any{"gpu-quarantine": "off"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.set["compute-runtime"] = "rocm"
			o := observed(t, hosttest.Host(t, "mi210x4"), c.set)
			if c.authorities {
				o.Facts.Authorities.Relations = authority(t, hosttest.NewAuthority(t, "First").PEM)
			}
			want, ok := resourcetest.File(Desire(o, nil).Resources, oci.DefaultConfig)
			require.True(t, ok)
			got, ok := resourcetest.File(RefreshResources(o), oci.DefaultConfig)
			require.True(t, ok)
			require.Equal(t, want, got)
		})
	}
}

// A description that waits for changes to end, or that lost its program, leaves no failed unit.
func TestRefreshIsStoppedWithWhatStartsIt(t *testing.T) {
	for active, want := range map[string][]string{"inactive": nil, "activating": {"stop " + RefreshService}, "failed": {"reset-failed " + RefreshService}} {
		o := observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "none"})
		o.Units = map[string]resource.UnitState{RefreshService: {Load: "not-found", Active: active}}
		for _, rs := range [][]plan.Resource{Desire(o, nil).Resources, Stop(o.Observed, "", "", 0)} {
			var got []string
			for _, r := range rs {
				if s, ok := r.(resource.Service); ok && s.Unit == RefreshService {
					p, err := s.Diff(t.Context(), host.Host{})
					require.NoError(t, err)
					for _, step := range p {
						got = append(got, step.Op)
					}
				}
			}
			require.Equal(t, want, got, active)
		}
	}
}
