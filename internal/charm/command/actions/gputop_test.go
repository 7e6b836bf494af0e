package actions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// topOf runs GPUTop with a fake exporter.
func topOf(t *testing.T, url string) *Actions {
	t.Helper()
	return &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, "amd")), ExporterURL: url}}
}

func TestTopAsJSONHasNoHistory(t *testing.T) {
	c := topOf(t, hosttest.NewServer(t, 200, `{"host": "h", "gpus": [{"index": 3, "users": [{"container": "a\u001b"}], "lease": null, "history": {"interval_seconds": 10}}]}`))
	var b strings.Builder
	require.NoError(t, c.GPUTop(t.Context(), &b, term.Format{JSON: true}, Top{}))
	var got api.Report
	require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
	require.Equal(t, "h", got.Host)
	require.Equal(t, 3, got.GPUs[0].Index)
	require.Equal(t, "a?", got.GPUs[0].Users[0].Container)
	require.Nil(t, got.GPUs[0].History)
}

func TestTopWithoutTheExporterShowsTheOwnersRecord(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, why := range map[string]string{gone.URL: "the exporter does not answer", hosttest.NewServer(t, 200, "<html>"): "the exporter does not answer with its list of GPUs",
		hosttest.NewServer(t, 200, `{"gpus": []}`): "the exporter lists no GPU", hosttest.NewServer(t, 503, ""): "the exporter answers 503",
		hosttest.NewServer(t, 200, `{"error": "x"}`): "the exporter lists no GPU"} {
		c := recorded(t, "mi210x4", threeGPUs)
		hosttest.Put(t, c.Host.Root, quarantine.File, `{"gpus": [{"name": "0000:43:00.0", "state": "quarantined", "reason": "hangs", "quarantined_by": "health", "quarantined_since": "2026-01-02T03:00:00Z"}]}`)
		c.ExporterURL = url
		var b strings.Builder
		require.NoError(t, c.GPUTop(t.Context(), &b, term.Format{}, Top{}))
		require.Contains(t, b.String(), "1 quarantined")
		require.Contains(t, b.String(), "\nnot live: "+why+"\n")
		require.NotContains(t, b.String(), "processes of other users")

		require.NoError(t, c.Host.Remove(role.GPUReport))
		c.ReadReport = func(context.Context) (api.Report, error) { return api.Report{}, errors.New("one hangs") }
		err := c.GPUTop(t.Context(), &b, term.Format{}, Top{})
		require.EqualError(t, err, "cannot show who uses the GPUs: "+why+"; the GPUs were not read yet, and one hangs")
	}
}

func TestGPUsThatAreReadOnceHaveTheirQuarantine(t *testing.T) {
	c := topOf(t, "")
	hosttest.Put(t, c.Host.Root, quarantine.File, `{"gpus": [{"name": "0000:03:00.0", "state": "quarantined",
		"reason": "hangs", "quarantined_by": "health", "quarantined_since": "2026-01-02T03:00:00Z"}]}`)
	for _, read := range []func(context.Context) (api.Report, error){nil,
		func(ctx context.Context) (api.Report, error) { return gpuhealth.ReadReport(ctx, c.Host.Root), nil }} {
		c.ReadReport = read
		var top, list strings.Builder
		require.NoError(t, c.GPUTop(t.Context(), &top, term.Format{}, Top{}))
		require.Contains(t, top.String(), "1 quarantined")
		require.NoError(t, c.GPUHealth(t.Context(), &list, term.Format{JSON: true}))
		require.Contains(t, list.String(), `"state": "quarantined"`)
	}
}

// The table is tested in package top.
func TestTopOnATerminalHasItsWidth(t *testing.T) {
	answer, err := os.ReadFile("../../../exporter/testdata/mi300x-cpx.json")
	require.NoError(t, err)
	c := topOf(t, hosttest.NewServer(t, 200, string(answer)))
	var b strings.Builder
	require.NoError(t, c.GPUTop(t.Context(), &b, term.Format{}, Top{Columns: 80}))
	require.Contains(t, b.String(), " 68/100  612/750 ")
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 81)
	}
}
