package charm

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// D18: the predecessor never drained.
func TestD18StopAndRemoveDrainFirst(t *testing.T) {
	for _, event := range []string{"stop", "remove"} {
		up := resource.UnitState{Load: "loaded", Active: "active", Sub: "running", File: "enabled"}
		d := desireRemoval(role.Observed{Event: event, Config: roletest.Config(t, map[string]any{"worker-drain-timeout": "30s"}),
			Units: map[string]resource.UnitState{concourse.Unit: up, role.PebbleUnit: up}})
		require.True(t, d.Remove)
		drain, ok := d.Resources[0].(concourse.Drain)
		require.True(t, ok, "%T", d.Resources[0])
		require.Equal(t, 30*time.Second, drain.Limit)
		require.Equal(t, event == "remove", resourcetest.Absent(d.Resources, concourse.ConfigDir), "keys go when the unit does")
		require.Equal(t, event == "remove", slices.ContainsFunc(d.Resources, func(r plan.Resource) bool { _, is := r.(noState); return is }))
		require.False(t, resourcetest.Absent(d.Resources, concourse.WorkDir))
	}
}

func TestLeavingUnitDrainsWhateverItsRole(t *testing.T) {
	for _, r := range []model.Role{model.WebRole, model.WorkerRole, model.AllRole} {
		want, err := (&Charm{}).decideRole(t.Context(), role.Observed{Event: "stop", Facts: model.Facts{Role: r}, Config: roletest.Config(t, nil)})
		require.NoError(t, err)
		require.True(t, want.Remove)
		require.False(t, want.HasWorker)
		require.True(t, slices.ContainsFunc(want.Resources, func(r plan.Resource) bool { _, is := r.(concourse.Drain); return is }))
	}
}

func TestRemovedUnitDeletesItsFiles(t *testing.T) {
	h, r := roletest.FullUnit(t)
	p := roletest.Changes(t, h, desireRemoval(role.Observed{Event: "remove", Config: roletest.Config(t, nil)}).Resources)
	text := roletest.Ops(p)
	last := strings.LastIndex(text, "remove package ")
	require.Less(t, last, strings.Index(text, "remove "+wellknown.StateDir), "the note of packages goes after them")
	_, err := p.Apply(context.Background(), nil)
	require.NoError(t, err)
	require.Equal(t, 2, len(r.Ran), r.Ran)
	for _, path := range slices.Concat(amd.ToolkitFiles(), nvidia.Files(), []string{cdi.Path, nvidia.Path, wellknown.StateDir}) {
		require.False(t, h.Exists(path), path)
	}
	for _, path := range roletest.Operators {
		require.True(t, h.Exists(path), path)
	}
}

// An operator configured Docker with another wrapper. Its removal needs the record. A purge needs
// the machine's state after the hook.
func TestRemovedUnitKeepsWhatOutlivesIt(t *testing.T) {
	h := host.Host{Root: hosttest.Root(t)}
	record := engines.Records + "/docker.json"
	hosttest.Put(t, h.Root, record, `{"file":"/etc/docker/daemon.json","parts":[{"name":"runtimes.amd","text":"/usr/bin/runc-amd-wrapper"}]}`)
	hosttest.Put(t, h.Root, model.MachineFile, "{}")
	hosttest.Put(t, h.Root, model.FactsFile, "{}")
	for range 2 {
		p := roletest.Changes(t, h, []plan.Resource{noState{"it is removed"}})
		_, err := p.Apply(t.Context(), nil)
		require.NoError(t, err)
	}
	require.True(t, h.Exists(record))
	require.True(t, h.Exists(model.MachineFile))
	require.False(t, h.Exists(model.FactsFile))
	require.Empty(t, roletest.Changes(t, h, []plan.Resource{noState{"it is removed"}}))
}

// D21, D3: no role's leftovers keep running.
func TestD21EachRoleRemovesTheOther(t *testing.T) {
	gone := worker.RemoveForWeb(role.Observed{})
	require.True(t, resourcetest.Absent(gone, concourse.UnitFile))
	require.True(t, resourcetest.Absent(gone, concourse.EnvFile))
	require.True(t, slices.ContainsFunc(gone, func(r plan.Resource) bool { _, is := r.(concourse.Drain); return is }))

	gone = web.RemoveFromWorker(role.Observed{Config: roletest.Config(t, nil)})
	require.False(t, resourcetest.Service(t, gone, concourse.WebUnit).Up)
	for _, path := range []string{concourse.WebUnitFile, "/var/lib/concourse/config.env", "/var/lib/concourse/keys"} {
		require.True(t, resourcetest.Absent(gone, path), path)
	}
}
