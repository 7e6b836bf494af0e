package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// registered returns Concourse's list of fleet's workers, and of one without a unit.
func registered() []concourse.WorkerInfo {
	return []concourse.WorkerInfo{{Name: "stranger", State: "stalled"}, {Name: "gpu-0", State: "running", ActiveTasks: 3}, {Name: "gpu-1", State: "running", ActiveTasks: 2},
		{Name: "mixed-0", State: "landing", ActiveTasks: 1}, {Name: "nvidia-0", State: "running"}}
}

func TestFleetIsATableOfAllWorkers(t *testing.T) {
	all := web.FleetOf(fleet(), registered(), hosttest.Now)
	text := strings.Join(fleetLines(all, term.Format{}), "\n") + "\n"
	hosttest.Golden(t, "testdata/fleet.golden", text)
	coloured := strings.Join(fleetLines(all, term.Format{Colour: true}), "\n") + "\n"
	require.NotEqual(t, text, coloured)
	require.Equal(t, text, escapes.ReplaceAllString(coloured, ""), "colours add to the text")
	var b strings.Builder
	require.NoError(t, term.JSON(&b, all))
	hosttest.Golden(t, "testdata/fleet-json.golden", b.String())

	// No worker is left out if Concourse does not answer, or without a registered worker.
	all = web.FleetOf(fleet(), nil, hosttest.Now)
	all.Unknown = "the web is down"
	text = strings.Join(fleetLines(all, term.Format{}), "\n")
	require.Contains(t, text, "STATE and TASKS are not known: the web is down")
	require.NotContains(t, text, "not registered")
	require.Equal(t, "0 workers, 0 GPUs: 0 in service, 0 quarantined or on probation", fleetLines(web.FleetOf(nil, nil, hosttest.Now), term.Format{})[0])
}

// Texts of a worker's unit and process are not trusted.
func TestFleetMakesTextsOfWorkersPrintable(t *testing.T) {
	const evil = "\x1b[2J\u202e\n"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sky/issuer/token" {
			fmt.Fprint(w, `{"access_token":"t"}`)
			return
		}
		require.NoError(t, json.NewEncoder(w).Encode([]concourse.WorkerInfo{{Name: evil + strings.Repeat("x", 1000), State: evil}}))
	}))
	defer api.Close()
	bag := map[string]string{"gpu-count": "1", "compute-runtime": "rocm", "worker-name": evil, "gpus": `{"at":"2026-01-01T00:00:00Z","gpus":[{"model":"\u001b[2J\u202e\n","service":"on_probation"}]}`}
	w := model.Worker{Unit: "gpu/0"}
	var problems []string
	w.Key, w.Name, problems = relation.ParseWorker(bag)
	w.Problem = strings.Join(problems, ", ")
	w.GPUs, _ = relation.ParseWorkerGPUs(bag)
	require.Len(t, w.GPUs.Each, 1)
	u := coveredBy([]model.Worker{w})
	u.Want.Web.Up, u.Want.Web.LocalURL = true, api.URL
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Root(t))}}
	for _, format := range []string{"text", "json"} {
		results, err := c.fleet(t.Context(), u, map[string]any{"format": format})
		require.NoError(t, err)
		text := results["fleet"].(string)
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\u202e")
		require.Less(t, len(text), 3000)
		require.Contains(t, text, "?[2J?")
	}
}

func TestFleetRunsOnWebsOnly(t *testing.T) {
	u := coveredBy(fleet())
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Root(t))}}
	results, err := c.fleet(t.Context(), u, nil)
	require.NoError(t, err)
	require.Contains(t, results["fleet"], "STATE and TASKS are not known: the web is not running; see juju status")
	u.Facts.Role = model.WorkerRole
	_, err = c.fleet(t.Context(), u, nil)
	require.EqualError(t, err, "cannot show the fleet: this unit is a worker; run it on the web's unit")
	require.Equal(t, errors.New("cannot show the fleet: no hook has run on this machine yet"), c.ShowFleet(t.Context(), nil, term.Format{}))
}

// fleet returns one worker of each kind.
func fleet() []model.Worker {
	mixed := roletest.GPUWorker("mixed/0", 3, roletest.Exclusive)
	mixed.GPUs.Archs = []relation.ArchCount{{Arch: "gfx90a", GPUs: 1}, {Arch: "gfx942", GPUs: 1}}
	nvidia := roletest.GPUWorker("nvidia/0", 2)
	nvidia.GPUs.Runtime, nvidia.GPUs.Archs = "cuda", nil
	old := model.Worker{Unit: "old/0", Key: "ssh-ed25519 AAAA old"} // a charm that reports nothing of GPUs
	mi350 := roletest.GPUWorker("mi350/0", 1, roletest.Limited)
	mi350.GPUs.Archs = []relation.ArchCount{{Arch: "gfx950", GPUs: 1}}
	return []model.Worker{roletest.GPUWorker("gpu/0", 8), // publishes only their number
		roletest.Reporting(roletest.GPUWorker("gpu/1", 8, roletest.Limited), hosttest.Now.Add(-20*time.Minute), []int{2, 5}, []int{0, 2}),
		roletest.Reporting(mi350, hosttest.Now.Add(-3*time.Hour), []int{0}, nil),
		roletest.Reporting(mixed, hosttest.Now.Add(-time.Second), []int{0, 2}, nil), nvidia, old}
}

// A quarantined GPU exists, and is not available to builds.
func TestRequiredArchitectureWithoutGPUsInServiceIsQuarantined(t *testing.T) {
	results := func(out ...int) map[string]any {
		w := roletest.Reporting(roletest.GPUWorker("gpu/0", 2), hosttest.Now, out, nil)
		got, err := (&Actions{Charm: &charm.Charm{}}).coverage(t.Context(), coveredBy([]model.Worker{w}, "gfx942"), nil)
		require.NoError(t, err)
		return got
	}
	require.Empty(t, results(1)["quarantined"])
	require.Equal(t, "gfx942", results(0, 1)["quarantined"])
	require.Empty(t, results(0, 1)["missing"])
}

// coverageOf returns the result of the action coverage.
func coverageOf(t *testing.T, u charm.Decision, params map[string]any) (text, missing string) {
	t.Helper()
	results, err := (&Actions{Charm: &charm.Charm{}}).coverage(t.Context(), u, params)
	require.NoError(t, err)
	return results["coverage"].(string), results["missing"].(string)
}

func coveredBy(workers []model.Worker, required ...string) charm.Decision {
	web := &model.Web{Workers: map[string]model.Worker{}}
	for _, w := range workers {
		web.Workers["tsa:7 "+w.Unit] = w
	}
	return charm.Decision{Facts: model.Facts{Role: model.WebRole, Web: web}, Config: config.Config{Web: config.Web{RequiredArchs: required}}}
}

func TestCoverageIsAMatrixOfArchitecturesAndWorkers(t *testing.T) {
	u := coveredBy(fleet(), "gfx1201", "gfx950", "gfx942")
	text, missing := coverageOf(t, u, nil)
	hosttest.Golden(t, "testdata/coverage.golden", text+"\n")
	require.Equal(t, "gfx1201", missing)
	asJSON, _ := coverageOf(t, u, map[string]any{"format": "json"})
	hosttest.Golden(t, "testdata/coverage-json.golden", asJSON+"\n")
	var a, b any
	require.NoError(t, yaml.Unmarshal([]byte(text), &a))
	require.NoError(t, json.Unmarshal([]byte(asJSON), &b))
	one, err := json.Marshal(a)
	require.NoError(t, err)
	two, err := json.Marshal(b)
	require.NoError(t, err)
	require.JSONEq(t, string(two), string(one), "both say the same")

	text, missing = coverageOf(t, coveredBy(nil), nil)
	require.Equal(t, "architectures: []\nmissing: []\nquarantined: []\nunknown: []\nothers: []\nworkers:\n  all: 0\n  with_gpus: 0", text)
	require.Empty(t, missing)
}

// Every web has the same relations, so a follower returns the same. A worker cannot.
func TestCoverageRunsOnWebsOnly(t *testing.T) {
	u := coveredBy(fleet(), "gfx942")
	leader, _ := coverageOf(t, u, nil)
	u.Facts.Leader = true
	follower, _ := coverageOf(t, u, nil)
	require.Equal(t, leader, follower)
	u.Facts.Role = model.WorkerRole
	_, err := (&Actions{Charm: &charm.Charm{}}).coverage(t.Context(), u, nil)
	require.EqualError(t, err, "cannot show the coverage: this unit is a worker; run it on the web's unit")
}
