package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A critical GPU that tasks still get is listed with its reason, as a quarantined one is.
func TestGPUsWithAProblemAreListed(t *testing.T) {
	service := func(s quarantine.State, by quarantine.Actor) pool.View {
		return pool.View{Service: &pool.Service{State: s, Since: hosttest.Now, Why: "noise", By: by}}
	}
	for name, c := range map[string]struct {
		g    GPU
		want broken
	}{
		"healthy":      {GPU{Health: health.Healthy, View: service(quarantine.InService, "")}, broken{}},
		"unknown":      {GPU{Health: health.Unknown}, broken{}},
		"critical":     {GPU{Health: health.Critical, Reason: "hangs"}, broken{Class: "critical", Mark: "✕", State: "critical", Reason: "hangs"}},
		"warning":      {GPU{Health: health.Warning, Reason: "hot"}, broken{Class: "warning", Mark: "!", State: "warning", Reason: "hot"}},
		"quarantined":  {GPU{Health: health.Critical, View: service(quarantine.Quarantined, quarantine.ByHealth)}, broken{Class: "critical", Mark: "⊘", State: "quarantined", Reason: "noise", Since: "0s"}},
		"by hand":      {GPU{View: service(quarantine.Quarantined, quarantine.ByHand)}, broken{Class: "critical", Mark: "⊘", State: "quarantined", Reason: "by hand: noise", Since: "0s"}},
		"on probation": {GPU{View: service(quarantine.OnProbation, quarantine.ByHealth)}, broken{Class: "warning", Mark: "↻", State: "on probation", Reason: "noise", Since: "0s"}},
	} {
		got, ok := brokenOf(c.g, place{}, hosttest.Now)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.want != broken{}, ok, name)
	}
}
