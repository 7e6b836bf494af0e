package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// The page shows each meter, also without a value, because they are columns.
func TestMetersWithoutValuesOrLimits(t *testing.T) {
	for _, m := range metersOf(&api.Status{}) {
		require.Equal(t, "not known", m.Text, m.Label)
		require.Empty(t, m.Value+m.Low+m.High, m.Label)
		require.Nil(t, m.Chart)
	}
	m := newMeter(&api.Status{Suspended: true}, "Power", watts, new(5.), new(0.), draw, past{})
	require.Equal(t, meter{Label: "Power", Text: "5 W", Short: "5 W"}, m, "a limit of 0 is none, and a value is shown also of a GPU that sleeps")
	m = newMeter(&api.Status{}, "Memory", gib, new(1.5*(1<<30)), new(10.*(1<<30)), capacity, past{})
	require.Equal(t, meter{Label: "Memory", Text: "1.5 of 10.0 GiB", Short: "1.5 GiB", Value: "1.5", Max: "10.0", Low: "9.0", High: "9.5"}, m)
}

// The chart has a line at the value that an alert begins at.
func TestChartOfAMeterShowsItsHighLine(t *testing.T) {
	m := newMeter(&api.Status{}, "Temperature", celsius, new(50.), new(100.), heat, past{[]*float64{new(40.), new(50.)}, 10})
	require.Equal(t, 5, m.HighLine, "steps from the top")
	require.Equal(t, "40 °C to 50 °C in the last minute; the line is at 95 °C", m.Chart.Range)
	load := loadMeter(&api.Status{}, new(.42), past{[]*float64{new(.1), new(.2)}, 10})
	require.Equal(t, "42 %", load.Text)
	require.Equal(t, "10 % to 20 % in the last minute", load.Chart.Range)
	divided := api.Status{Partitions: 2, History: &api.History{Activity: []*float64{new(.1), new(.2)}, Power: []*float64{new(1.), new(2.)}}}
	meters := metersOf(&divided)
	require.NotNil(t, meters[1].Chart)
	require.Nil(t, meters[3].Chart, "the history is of one partition")
}

func TestFailedTasksHaveTheirTimeline(t *testing.T) {
	require.Equal(t, "This unit records no tasks.", newTasksView(nil, Links{}).None)
	require.Equal(t, "No task failed in the time that is kept.", newTasksView(&verdict.Report{}, Links{}).None)
	at, exit := time.Date(2026, 8, 1, 12, 0, 5, 0, time.UTC), 137
	const handle = "eb2a4fe8-e932-49c4-b519-4f1da1901416"
	detail := verdict.Detail{}
	detail.Handle, detail.Entry.Exit = handle, &exit
	detail.Timeline.Charts = []taskrecord.Chart{{Name: "power", GPU: "0", Unit: "W", Most: 10, Values: []*float64{new(5.), new(10.)}},
		{Name: "load", Unit: "CPUs", Most: 9.94, Values: []*float64{new(5.)}}, {Unit: "B"}}
	detail.Timeline.Marks = []taskrecord.Mark{{At: 3, Time: at, Kind: "hang", GPU: "0"}, {At: width + 5, Time: at, Kind: "end"}}
	v := newTasksView(&verdict.Report{Details: []verdict.Detail{detail, {}}}, Links{Build: "https://ci/{container}"})
	require.Len(t, v.Tasks, 2)
	require.Equal(t, "137", v.Tasks[0].Exit)
	require.Equal(t, "not known", v.Tasks[1].Exit)
	require.Equal(t, "https://ci/"+handle, v.Tasks[0].Build)
	require.Equal(t, []event{{3, "12:00:05 hang 0"}, {width, "12:00:05 end "}}, v.Tasks[0].Events)
	rows := v.Tasks[0].Rows
	require.Equal(t, []string{"GPU 0: power", "load", "B"}, []string{rows[0].Label, rows[1].Label, rows[2].Label})
	require.Equal(t, []string{"max 10 W", "max 9.9 CPUs", "max 0.0 B"}, []string{rows[0].Text, rows[1].Text, rows[2].Text})
	require.Equal(t, 40, rows[0].Chart.Top)
	require.Nil(t, rows[1].Chart)
}
