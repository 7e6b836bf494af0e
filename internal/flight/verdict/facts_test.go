package verdict

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

func sampleOf(v int64) taskrecord.Sample {
	values := make([]int64, taskrecord.Clock+1)
	values[taskrecord.Clock] = v
	return taskrecord.Sample{Values: values}
}

// A counter that is missing in a sample, or that began again, has no rate.
func TestRateNeedsTwoGrowingSamples(t *testing.T) {
	for name, c := range map[string]struct {
		before, now int64
		want        float64
		known       bool
	}{
		"grows":          {10, 30, 10, true},
		"stays":          {10, 10, 0, true},
		"began again":    {10, 9, 0, false},
		"missing before": {taskrecord.Missing, 30, 0, false},
		"missing now":    {10, taskrecord.Missing, 0, false},
	} {
		v, known := rate(sampleOf(c.before), sampleOf(c.now), taskrecord.Clock, 2)
		require.Equal(t, c.known, known, name)
		require.InDelta(t, c.want, v, 0, name)
	}
}

func TestMeanIsOfTheKnownValues(t *testing.T) {
	v, known := mean([]taskrecord.Sample{sampleOf(2), sampleOf(taskrecord.Missing), sampleOf(6)}, taskrecord.Clock)
	require.True(t, known)
	require.InDelta(t, 4, v, 0)
	_, known = mean([]taskrecord.Sample{sampleOf(taskrecord.Missing)}, taskrecord.Clock)
	require.False(t, known)
}
