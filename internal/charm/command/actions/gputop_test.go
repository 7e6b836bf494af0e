package actions

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
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

func TestTopWithoutTheExporterNamesTheRemedy(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, why := range map[string]string{gone.URL: "the exporter does not answer", hosttest.NewServer(t, 200, "<html>"): "the exporter does not answer with its list of GPUs",
		hosttest.NewServer(t, 200, `{"gpus": []}`): "the exporter lists no GPU", hosttest.NewServer(t, 503, ""): "the exporter answers 503"} {
		var b strings.Builder
		err := topOf(t, url).GPUTop(t.Context(), &b, term.Format{}, Top{})
		require.EqualError(t, err, "cannot show who uses the GPUs: "+why+"; rocm-exporter runs on workers with GPUs: sudo PEBBLE=/var/lib/concourse-ci-machine/pebble /opt/concourse-ci-machine/bin/pebble services shows whether it does")
		require.Empty(t, b.String())
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
