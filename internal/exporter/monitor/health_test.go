package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestTemperatureIsJudgedByTheSensorNearestItsLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		files  map[string]string
		sensor string
		state  health.State
		edge   float64 // the die's
	}{
		"all cool":                   {exportertest.Sensors("edge", 40, 100, "junction", 50, 110, "mem", 45, 108), "junction", health.Healthy, 40},
		"a junction beyond its own":  {exportertest.Sensors("edge", 70, 100, "junction", 121, 110, "mem", 60, 108), "junction", health.Critical, 70},
		"memory near its own":        {exportertest.Sensors("edge", 60, 100, "junction", 80, 110, "mem", 107, 108), "mem", health.Warning, 60},
		"the only one with a limit":  {exportertest.Sensors("edge", 60, 100, "junction", 99, 0), "edge", health.Healthy, 60},
		"none has a limit (in a VM)": {exportertest.Sensors("edge", 60, 0, "junction", 99, 0), "edge", health.Unknown, 60},
	} {
		t.Run(name, func(t *testing.T) {
			g := newMonitor(exportertest.Put(t, tt.files), one, Options{}).gpu(t)
			shown := g.Temperature()
			require.Equal(t, tt.sensor, shown.Sensor)
			require.Equal(t, tt.state, g.Health.State, g.Health.Reason())
			require.Equal(t, amdgpu.Known(tt.edge), g.State.Temperature.Now)
		})
	}
}

// Not every link of a board is wired, and in a guest all are reported as down.
func TestOnlyALinkThatWasUpCanBeLost(t *testing.T) {
	const status = 31
	r := exportertest.Put(t, exportertest.Sensors("edge", 40, 100))
	m := newMonitor(r, one, Options{})
	read := func(links ...uint64) health.Judgement {
		t.Helper()
		hosttest.Put(t, r, dev+"/gpu_metrics", exportertest.Table(exportertest.Attribute{ID: status, Values: links}))
		return m.gpu(t).Health
	}
	require.Equal(t, health.Healthy, read(0, 0, 0, 0).State, "none was ever up")
	require.Equal(t, health.Healthy, read(1, 1, 0, 2).State)
	j := read(1, 0, 0, 2)
	require.Equal(t, health.Warning, j.State)
	require.Equal(t, "1 of 2 XGMI links up", j.Reason())
	require.Equal(t, health.Healthy, read(1, 1, 0, 2).State)
	require.Equal(t, health.Healthy, read(1, 2, 0, 2).State, "one that tells nothing now is not down")
}
