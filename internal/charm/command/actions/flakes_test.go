package actions

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// flakyReport returns a report with a row of each kind.
func flakyReport() flakereport.Report {
	key := flake.Key{Team: "main", Pipeline: "rocm", Job: "test", Step: "unit (gfx942)",
		Test: "tests.test_ops.test_mul"}
	since := hosttest.Now.Add(-72 * time.Hour)
	place := flake.Place{Worker: "gpu-2", GPU: "0000:83:00.0", Failures: 7, Runs: 9, OthersRuns: 41,
		Probability: 3.6e-7}
	lost := flake.Lost{Key: key, Build: flake.Build{ID: 900, Name: "41"}, Worker: "gpu-1", Time: since,
		Cause: flake.ByMachine, Reason: "disk full"}
	lost.Test = ""
	return flakereport.Report{Time: hosttest.Now, Runs: 50, Builds: 60, Unread: 3,
		Problem: "Concourse's builds cannot be read now",
		Flakes: []flakereport.Flake{{Flake: flake.Flake{Key: key, Kind: flake.KindGPU, Failures: 7, Runs: 50,
			Rate: 0.14, Since: since, Last: hosttest.Now.Add(-time.Hour), Place: &place},
			Sentence: "this test failed on GPU 3 (0000:83:00.0) of worker gpu-2 in 7 of 9 runs " +
				"and on others in 0 of 41"},
			{Flake: flake.Flake{Key: flake.Key{Team: "main", Pipeline: "rocm", Job: "docs", Step: "build"},
				Kind: flake.KindTest, Failures: 2, Runs: 30, Rate: 0.067, Since: since, Last: since},
				Sentence: "this task failed without a change in 2 of 30 runs"}},
		Places: []flakereport.Place{{Place: place,
			Sentence: "2 tasks fail on GPU 3 (0000:83:00.0) of worker gpu-2 in 7 of 9 runs and on others in 0 of 41"}},
		Lost: []flakereport.Lost{{Lost: lost, Sentence: "failed by infrastructure, run again (machine: disk full)"}}}
}

func TestFlakesAreATable(t *testing.T) {
	lines := func(f term.Format) string {
		return strings.Join(flakeLines(flakyReport(), "http://10.0.0.10:9358/", hosttest.Now, f), "\n") + "\n"
	}
	hosttest.Golden(t, "testdata/flakes.golden", lines(term.Format{}))
	require.Equal(t, lines(term.Format{}), escapes.ReplaceAllString(lines(term.Format{Colour: true}), ""),
		"colours add to the text")
	require.Equal(t, []string{"0 flakes in 0 runs, 0 runs by infrastructure"},
		flakeLines(flakereport.Report{}, "", hosttest.Now, term.Format{}))
}

func TestFlakesComeFromTheExporter(t *testing.T) {
	answer, code := flakyReport(), 200
	answer.Flakes[0].Test = "\x1b[2J\u202e"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		require.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	defer web.Close()
	u := charm.Decision{Facts: model.Facts{Role: model.WebRole, Web: &model.Web{}},
		Config: config.Config{Web: config.Web{WebOptions: concourse.WebOptions{EnableMetrics: true}, FleetPage: config.FleetNames}}}
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Root(t)), Event: juju.Event{Unit: "web/0"}},
		FlakesURL: web.URL}
	for _, format := range []string{"text", "json"} {
		results, err := c.flakes(t.Context(), u, map[string]any{"format": format})
		require.NoError(t, err)
		require.Contains(t, results["flakes"], "in 7 of 9 runs and on others in 0 of 41")
		require.NotContains(t, results["flakes"], "\x1b")
		require.NotContains(t, results["flakes"], "\u202e")
	}
	fails := func(want string) {
		t.Helper()
		_, err := c.flakes(t.Context(), u, nil)
		require.EqualError(t, err, "cannot show flakes: "+want)
	}
	code = 404
	fails("the exporter answers 404; see juju run web/0 check-status")
	c.FlakesURL = ""
	fails("the exporter watches this machine, not CHARM_ROOT")
	u.Config.Web.FleetPage = config.FleetAnonymous
	fails("fleet-page is anonymous; run: juju config web fleet-page=names")
	u.Config.Web.EnableMetrics = false
	fails("enable-metrics is off; run: juju config web enable-metrics=true")
	u.Facts.Role = model.WorkerRole
	fails("this unit is a worker; run it on the web's unit")
	require.EqualError(t, c.ShowFlakes(t.Context(), nil, term.Format{}),
		"cannot show flakes: no hook has run on this machine yet")
}
