package hooks

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// lists has the unit's web list workers, all of them running.
func (u *unit) lists(names *[]string) {
	u.Machine.Web = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/workers" {
			w.Write([]byte(sandbox.WebAnswer(r.URL.Path)))
			return
		}
		list := []concourse.WorkerInfo{}
		for _, name := range *names {
			list = append(list, concourse.WorkerInfo{Name: name, State: "running"})
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			u.t.Error(err)
		}
	})
}

// remove-relation and remove-application: Juju has both sides see the relation end at
// once, and the web mostly comes first.
func TestRelationThatEndsOnBothSidesAtOnceLetsTasksEnd(t *testing.T) {
	t.Parallel()
	ci, gpu := webs(t, 1, nil), workers(t, 2, nil)
	n := networkOf(ci, gpu)
	n.flight(ci, gpu)
	n.settle()
	web, names := ci.units[0], []string{}
	web.lists(&names)
	for _, u := range gpu.units {
		bag := find(u, "flight", "ci").Local
		require.Equal(t, "10m0s", bag["drain-timeout"])
		names = append(names, bag["worker-name"])
	}
	tsa := find(web, "tsa", "gpu")
	for _, gone := range []string{"gpu/0", "gpu/1"} {
		r := n.relationHook(web, tsa, "departed", gone)
		require.Empty(t, r.Commands)
		tsa = find(web, "tsa", "gpu")
		delete(tsa.Units, gone)
	}
	require.Empty(t, n.relationHook(web, tsa, "broken", "").Commands)
	unrelate(web, "tsa")
	registered(ci, gpu.units...)
	require.Contains(t, ci.status(0), "gpu/0 has left and drains until ")

	// Now the workers.
	for _, u := range gpu.units {
		flight := find(u, "flight", "ci")
		require.Empty(t, n.relationHook(u, flight, "departed", "ci/0").Commands)
		delete(find(u, "flight", "ci").Units, "ci/0")
		r := n.relationHook(u, find(u, "flight", "ci"), "broken", "")
		require.Contains(t, r.Commands, "systemctl kill --kill-whom=main --signal=SIGUSR2 concourse-worker.service")
		unrelate(u, "flight")
	}
	// One has retired; the other has a task that no one wants to wait for.
	stays := names[1]
	names = []string{stays}
	r := web.hook("update-status")
	require.Contains(t, r.Commands, "systemctl reload concourse-server.service")
	require.Contains(t, strings.Join(r.Commands, "\n"), "--kill state established dst 10.0.1.10 ")
	registered(ci, gpu.units[1])
	require.Equal(t, stays, web.done("prune-worker", map[string]any{"worker": stays})["pruned"])
	require.Empty(t, web.read(authorizedFile))
	web.hook("update-status")
	ci.idle()
}

// What must end ends whatever the options report.
func TestWorkerWithAWrongOptionEndsWithItsRelation(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	u.set(options{"log-level": "bogus"})
	require.Empty(t, u.hook("config-changed").Commands)
	require.Empty(t, u.flight("departed", "web/0").Commands, "the web may come back")
	require.True(t, u.Machine.Up("concourse-worker.service"))
	r := u.flight("broken", "")
	require.Contains(t, r.Commands, "systemctl kill --kill-whom=main --signal=SIGUSR2 concourse-worker.service")
	require.False(t, u.Machine.Up("concourse-worker.service"))
	require.Equal(t, "blocked", r.Status().Status)
	require.Contains(t, r.Status().Message, "log-level: ")
	unrelate(u, "flight")
	u.set(options{"log-level": "info"})
	require.Contains(t, u.hook("config-changed").Status().Message, "Waiting for a web — run: juju integrate ")
}

// The hook that saw the relation end may have been of an older charm, or have failed.
func TestWorkerWithoutARelationEndsInAnyHook(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("no-gpu"), nil)
	unrelate(u, "flight")
	r := u.hook("update-status")
	require.Contains(t, r.Commands, "systemctl kill --kill-whom=main --signal=SIGUSR2 concourse-worker.service")
	require.False(t, u.Machine.Up("concourse-worker.service"))
	require.NotContains(t, r.Status().Message, "left running")
}

// remove-application --force: Juju drops the relation at once, runs no hook of it and refuses
// its databags, but still lists it. The web goes on, and others join.
func TestWebOutlivesARelationRemovedByForce(t *testing.T) {
	t.Parallel()
	ci, gpu := webs(t, 1, nil), workers(t, 2, nil)
	n := networkOf(ci, gpu)
	n.flight(ci, gpu)
	n.settle()
	web := ci.units[0]
	names := []string{find(gpu.units[0], "flight", "ci").Local["worker-name"]} // the other one has retired
	web.lists(&names)
	lost := find(web, "tsa", "gpu")
	lost.Forced = true

	r := web.hook("update-status")
	none(t, r.Commands, "restart")
	registered(ci, gpu.units[0])
	require.Contains(t, ci.status(0), "gpu/0 has left and drains until ")
	require.Contains(t, web.action("check-status", nil).Results["checks"], "warn    relation "+lost.Name()+": removed "+
		"with --force, and ignored; Juju lists it until the unit's agent restarts\n        to clear it: juju ssh ci/0 sudo ")

	web.set(options{"log-level": "debug"})
	web.hook("config-changed")
	require.Contains(t, web.read("/var/lib/concourse/config.env"), "CONCOURSE_LOG_LEVEL=debug\n")
	late := web.Model.Relate(11, "tsa", "late")
	late.Units["late/0"] = map[string]string{"worker-name": "late-0", "worker-public-key": strings.TrimSpace(gpu.units[1].read("/var/lib/concourse-worker/keys/worker_key.pub"))}
	_, err := web.RelationHook(late, "joined", "late/0")
	require.NoError(t, err)
	registered(ci, gpu.units...)

	require.NotEmpty(t, web.done("prune-worker", map[string]any{"worker": names[0]})["pruned"])
	registered(ci, gpu.units[1])
	web.Model.Relations = slices.DeleteFunc(web.Model.Relations, func(r *jujutest.Relation) bool { return r.Forced })
	web.hook("start") // the agent has restarted
	require.NotContains(t, web.action("check-status", nil).Results["checks"], "--force")
	ci.idle()
}
