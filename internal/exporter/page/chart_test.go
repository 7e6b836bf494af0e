package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

func TestChartDrawsValuesInStepsOfTheUnit(t *testing.T) {
	c := chartOf(watts, []*float64{new(0.), new(50.), nil, new(100.)}, 10, new(100.))
	require.Equal(t, &chart{Top: 100, Unit: "W", Line: "M86 100h0l1-50M89 0h0", Area: "M86 100h0l1-50V100H86zM89 0h0V100H89z",
		Range: "0 W to 100 W in the last minute"}, c)
	c = chartOf(gib, []*float64{new(1. * (1 << 30)), new(1.26 * (1 << 30)), new(1.1 * (1 << 30))}, 10, nil)
	require.Equal(t, "M87 3h0l1-3 1 2", c.Line)
	require.Equal(t, 13, c.Top, "without a limit the highest value")
	require.Equal(t, 1, c.Digits)
}

func TestChartNeedsTwoKnownValues(t *testing.T) {
	require.Nil(t, chartOf(watts, make([]*float64, 90), 10, nil))
	require.Nil(t, chartOf(watts, []*float64{new(1.), nil}, 10, nil))
	many := make([]*float64, 90)
	for i := range many {
		many[i] = new(0.)
	}
	c := chartOf(watts, many, 10, nil)
	require.Equal(t, "0 W to 0 W in the last 15 minutes", c.Range)
	require.Regexp(t, `^M0 1h0l1 0( 1 0){88}$`, c.Line)
}

func TestRangeOfAChartNamesItsTime(t *testing.T) {
	values := func(n int) []*float64 {
		all := make([]*float64, n)
		all[0], all[n-1] = new(1.), new(2.)
		return all
	}
	for n, want := range map[int]string{8: "minute", 9: "2 minutes", 90: "15 minutes"} {
		require.Equal(t, "1 W to 2 W in the last "+want, chartOf(watts, values(n), 10, nil).Range)
	}
	require.Nil(t, chartOf(watts, values(91), 10, nil), "it is of another exporter")
	require.Equal(t, 5, chartOf(watts, values(2), 10, new(5.)).Top)
	require.Equal(t, 2, chartOf(watts, values(2), 10, new(1.)).Top, "a value above its limit is shown")
}

func TestAxisIsInUTC(t *testing.T) {
	last := time.Date(2026, 8, 1, 14, 15, 8, 0, time.FixedZone("", 2*3600))
	got := axisOf([]api.Status{{}, {History: &api.History{Interval: 10, Last: last}}})
	require.Equal(t, axis{Last: last.Unix(), Every: 10, Ticks: []string{"12:00", "12:05", "12:10", "12:15 UTC"}}, got)
	require.Equal(t, axis{}, axisOf([]api.Status{{}}))
}
