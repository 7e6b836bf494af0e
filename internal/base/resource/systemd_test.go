package resource

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

const shown = `LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
Id=concourse-worker.service

Id=concourse-pebble.service
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
`

func TestUnitStatesComeFromOneCall(t *testing.T) {
	_, r := machine(t)
	r.Answer("systemctl show", shown)
	got, err := ShowUnits(context.Background(), r, "concourse-worker.service", "concourse-pebble.service")
	require.NoError(t, err)
	require.Equal(t, map[string]UnitState{
		"concourse-worker.service": {Load: "loaded", Active: "active", Sub: "running", File: "enabled"},
		"concourse-pebble.service": {Load: "not-found", Active: "inactive", Sub: "dead"},
	}, got)
	require.True(t, got["concourse-worker.service"].Running())
	require.Equal(t, UnitState{}, got["other.service"])
	require.Len(t, r.Asked, 1)
	require.Empty(t, r.Ran)

	r.Fail("systemctl show", 1, "System has not been booted with systemd")
	_, err = ShowUnits(context.Background(), r, "x")
	require.ErrorContains(t, err, "not been booted")
}

func TestServiceStepsFollowFromItsState(t *testing.T) {
	const u = "concourse-worker"
	for name, c := range map[string]struct {
		s    Service
		want []string
	}{
		"fresh":            {Service{Up: true}, []string{"enable " + u + " (not enabled)", "start " + u + " (not running)"}},
		"up":               {Service{Up: true, State: UnitState{Active: "active", File: "enabled"}}, nil},
		"coming up":        {Service{Up: true, State: UnitState{Active: "activating", File: "enabled"}}, nil},
		"failed":           {Service{Up: true, State: UnitState{Active: "failed", File: "enabled"}}, []string{"start " + u + " (failed)"}},
		"stopped by hand":  {Service{Up: true, State: UnitState{Active: "inactive", File: "enabled"}}, []string{"start " + u + " (not running)"}},
		"not for the boot": {Service{Up: true, State: UnitState{Active: "active", File: "disabled"}}, []string{"enable " + u + " (not enabled)"}},
		"unwanted":         {Service{Why: "no GPU", State: UnitState{Active: "active", File: "enabled"}}, []string{"stop " + u + " (no GPU)", "disable " + u + " (no GPU)"}},
		"unwanted, down":   {Service{Why: "no GPU", State: UnitState{Active: "inactive", File: "disabled"}}, nil},
		"unwanted, failed": {Service{Why: "no GPU", State: UnitState{Active: "failed"}},
			[]string{"reset-failed " + u + " (no GPU)"}},
		"unwanted, absent": {Service{Why: "no GPU"}, nil},
	} {
		h, r := machine(t)
		r.Answer("systemctl", "")
		c.s.Unit = u
		var got, ran []string
		for _, s := range apply(t, h, c.s) {
			got = append(got, s.Op+" ("+s.Why+")")
			ran = append(ran, "systemctl "+s.Op)
		}
		require.Equal(t, c.want, got, name)
		require.Equal(t, ran, r.Ran, name)
	}
}

func TestServiceThatDoesNotStartIsAnError(t *testing.T) {
	h, r := machine(t)
	r.Fail("systemctl start", 1, "Job for x failed")
	_, err := diff(t, h, Service{Unit: "x", Up: true, State: UnitState{File: "enabled"}}).Apply(context.Background(), nil)
	var failed *plan.StepError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "start x", failed.Op)
}

func FuzzParseUnits(f *testing.F) {
	f.Add([]byte(shown))
	f.Add([]byte("Id=\n\nId=x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, named := parseUnits(data)[""]
		require.False(t, named)
	})
}
