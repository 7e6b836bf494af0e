package actions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// A GPU in the cold has a negative temperature, and a mark may be outside of the charts.
func TestTimelineHasABarForEachReading(t *testing.T) {
	low, high := -4., 40.
	var b strings.Builder
	writeTimeline(&b, taskrecord.Timeline{Charts: []taskrecord.Chart{{Name: "temperature", Unit: "°C", Values: []*float64{&low, nil, &high}, Most: 40},
		{Name: "none", Values: []*float64{&low, &low}}}, Marks: []taskrecord.Mark{{At: -1}, {At: 10 * timelineWidth}}})
	require.Contains(t, b.String(), "temperature        ▁ █ max 40 °C\n")
	require.Contains(t, b.String(), "none               ▁▁ max 0 \n")
}
