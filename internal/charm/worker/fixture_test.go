package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// webUnit returns the databag of a complete web.
func webUnit() map[string]string {
	return map[string]string{"tsa-host": "10.0.0.2:2222", "tsa-public-key": roletest.TSAKey, "concourse-version": "8.2.5"}
}

func workerMode() map[string]any { return map[string]any{"mode": "worker"} }

func related(units map[string]map[string]string) []model.Relation {
	return []model.Relation{{ID: "flight:7", Own: map[string]string{}, Units: units}}
}

// observed returns a worker on a fixture host, related to a web.
func observed(t *testing.T, r host.Root, set map[string]any) Observed {
	t.Helper()
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	toolkit, err := amd.ObserveToolkit(r)
	require.NoError(t, err)
	o := Observed{GPUs: inv, Toolkit: toolkit, Observed: role.Observed{Event: "config-changed", Config: roletest.Config(t, set), Machine: machine.Observe(r),
		Arch: "amd64", CharmDir: hosttest.CharmDir(t), Now: hosttest.Now, Release: release.Release{Version: "8.2.5", Arch: "amd64"},
		ReleaseID: "8.2.5", WorkerID: "0badcafe", Units: map[string]resource.UnitState{}, Programs: []byte("1")}}
	o.Facts = model.Facts{Unit: "concourse-ci-machine/0", Role: model.WorkerRole, Config: workerMode(), Flights: related(map[string]map[string]string{"web/0": webUnit()})}
	o.TSA, o.TSAProblems = model.ChooseTSA(o.Facts)
	return o
}

// running marks the units as up.
func running(o Observed) Observed {
	up := resource.UnitState{Load: "loaded", Active: "active", Sub: "running", File: "enabled"}
	o.Units = map[string]resource.UnitState{concourse.Unit: up, role.PebbleUnit: up}
	return o
}

func absent(d Desired, path string) bool {
	gone := slices.ContainsFunc(d.Resources, func(r plan.Resource) bool { _, is := r.(cdi.Absent); return is })
	return resourcetest.Absent(d.Resources, path) || path == cdi.Path && gone
}

// env returns the desired environment of the worker.
func env(t *testing.T, d Desired) map[string]string {
	t.Helper()
	data, ok := resourcetest.File(d.Resources, concourse.EnvFile)
	require.True(t, ok)
	vars := map[string]string{}
	for line := range strings.Lines(data) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		vars[k] = v
	}
	return vars
}

// text formats a state with all causes for tables.
func text(ready string, causes []status.Cause) string {
	kind, parts := status.Active, []string{ready}
	for i, c := range status.Sorted(causes) {
		if i == 0 && c.Kind != status.Active {
			kind, parts = c.Kind, nil
		}
		parts = append(parts, c.String())
	}
	return string(kind) + ": " + strings.Join(parts, "; ")
}
