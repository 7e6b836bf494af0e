package actions

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// One answer has all values of a card.
func TestGPUListHasTheOwnersReadings(t *testing.T) {
	var all strings.Builder
	for _, name := range []string{"amd", "mi300x-cpx"} {
		answer, err := os.ReadFile("../../../exporter/testdata/" + name + ".json")
		require.NoError(t, err)
		c := recorded(t, name, string(answer))
		require.NoError(t, c.ListGPUs(t.Context(), &all, term.Format{}))
		require.NoError(t, c.ListGPUs(t.Context(), &all, term.Format{JSON: true}))
	}
	hosttest.Golden(t, "testdata/list-told.golden", all.String())
}

func TestGPUListHasNullsAndTheReasonWithoutReadings(t *testing.T) {
	c := topOf(t, "")
	c.ReadReport = func(context.Context) (api.Report, error) { return api.Report{}, errors.New("one hangs") }
	var text, list strings.Builder
	require.NoError(t, c.ListGPUs(t.Context(), &text, term.Format{}))
	require.NotContains(t, text.String(), "°C")
	require.NoError(t, c.ListGPUs(t.Context(), &list, term.Format{JSON: true}))
	var got struct {
		GPUs []map[string]any
		Why  string `json:"no_readings"`
	}
	require.NoError(t, json.Unmarshal([]byte(list.String()), &got))
	require.Equal(t, "the GPUs were not read yet, and one hangs", got.Why)
	for _, key := range []string{"temperature_celsius", "power_watts", "memory_used_bytes", "memory_total_bytes", "activity_ratio"} {
		value, there := got.GPUs[0][key]
		require.True(t, there, key)
		require.Nil(t, value, key)
	}
	require.Equal(t, "GPU-4be2f10c93d57a68", got.GPUs[0]["uuid"], "that is known without readings")
	require.Equal(t, "unknown", got.GPUs[0]["health"].(map[string]any)["state"])
}

// Of a machine without an owner of the GPUs, another process reads them once.
func TestGPUListReadsTheGPUsOnceWithoutARecord(t *testing.T) {
	c := topOf(t, "")
	c.ReadReport = func(ctx context.Context) (api.Report, error) { return gpuhealth.ReadReport(ctx, c.Host.Root), nil }
	var list strings.Builder
	require.NoError(t, c.ListGPUs(t.Context(), &list, term.Format{JSON: true}))
	var got struct {
		GPUs []map[string]any
		Once string `json:"read_once"`
		None string `json:"no_readings"`
	}
	require.NoError(t, json.Unmarshal([]byte(list.String()), &got))
	require.Equal(t, "the GPUs were not read yet", got.Once)
	require.Empty(t, got.None)
	for _, key := range []string{"index", "name", "uuid", "vbios", "driver_version", "temperature_celsius", "power_watts",
		"memory_used_bytes", "memory_total_bytes", "activity_ratio"} {
		require.NotNil(t, got.GPUs[0][key], key)
	}
}
