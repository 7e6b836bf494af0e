package exporter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/exporter/health"
)

func TestWhatIsWrongIsExplained(t *testing.T) {
	n, share, events := 3, .9, 5
	for _, c := range []struct {
		in   health.Inputs
		want []int
	}{
		{health.Inputs{}, nil},
		{health.Inputs{Errors: &health.Errors{}}, nil},
		{health.Inputs{BadPages: &n}, []int{1}},
		{health.Inputs{Hang: "in_reset", Unreadable: "no file gives a value"}, []int{2}},
		{health.Inputs{Errors: &health.Errors{}, Events: &events}, []int{2}},
		{health.Inputs{Errors: &health.Errors{}, PCIe: &health.PCIe{Width: 4, MaxWidth: 16}}, []int{3}},
		{health.Inputs{Temperature: &health.Temperature{Sensor: "edge", Value: 99, Critical: 100}}, []int{4}},
		{health.Inputs{Errors: &health.Errors{}, ThermalShare: &share}, []int{4}},
		{health.Inputs{Errors: &health.Errors{Correctable: 2000}}, []int{6}},
		{health.Inputs{Errors: &health.Errors{Deferred: 1}}, []int{7}},
		{health.Inputs{Errors: &health.Errors{Uncorrectable: 1}, BadPages: &n}, []int{1, 7}},
		{health.Inputs{Errors: &health.Errors{}, Links: &health.Links{Up: 1, Total: 8}}, []int{8}},
	} {
		var h Health
		_, h.State, h.Reason = health.Assess(c.in)
		var got []int
		for _, e := range explain(h) {
			got = append(got, e.Code)
		}
		require.ElementsMatch(t, c.want, got, h.Reason)
	}
}
