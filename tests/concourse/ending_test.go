//go:build e2e

package concourse

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// TestRelationThatEndsLetsTasksEnd has a web and two workers. Juju ends their relation on
// both sides at once, as it does for remove-relation and remove-application: first the
// web's hooks, then the workers'.
func TestRelationThatEndsLetsTasksEnd(t *testing.T) {
	s := twoWorkers(t, "30m")
	// A worker that only fetched the image of a running build retires after that, so
	// nothing of it comes to this one.
	require.NoError(t, s.app.units[1].Model.SetConfig("tag", "idle"))
	s.tell(t, []step{
		{"a web and two workers are deployed and related", s.apart},
		{"the web hears first that they leave, and the idle one goes", s.idleGoes},
		{"the other one has its task to the end", s.busyEnds},
		{"nothing is left of them at the web", s.nothingToPrune},
	})
}

// A worker that leaves without a drain is removed from the web's list, which ends its builds.
// Otherwise they would wait for the lost worker for 5 minutes.
func TestBuildOfAWorkerThatDoesNotDrainEnds(t *testing.T) {
	s := twoWorkers(t, "0s")
	require.NoError(t, s.app.units[1].Model.SetConfig("tag", "idle"))
	s.tell(t, []step{
		{"a web and two workers are deployed and related", s.apart},
		{"a worker leaves while its task runs, and the build ends", s.endsAtOnce},
	})
}

func (s *story) endsAtOnce(t *testing.T) {
	web, gone := s.web(), s.app.units[2]
	b := s.starts("last")
	until(t, func() bool { return s.runs(b) }, "the task does not run")
	name := s.nameOf(gone)
	r, err := s.broken(gone)
	gone.fine("flight-relation-broken", r, err)
	require.Equal(t, "inactive", gone.state(concourse.Unit))
	begin := time.Now()
	delete(relationOf(web, "tsa").Units, gpuUnit(gone))
	s.app.relation(web, "tsa", "departed", gpuUnit(gone))
	until(t, b.ended, "the build waits for the worker that left")
	s.since(begin, "the build has ended")
	require.Error(t, b.err, b.out)
	until(t, func() bool {
		s.app.hook(web, "update-status")
		return !s.has(name)
	}, "the web still lists the worker")
	require.NotContains(t, web.checks(), "has left and drains")
}

// twoWorkers has a web and two workers with a worker-drain-timeout that are not related yet.
func twoWorkers(t *testing.T, drain string) *story {
	t.Helper()
	tgz := releaseTarball(t)
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}
	s.app = newApp(t, tgz, map[string]any{"mode": "worker", "worker-drain-timeout": drain}, "no-gpu", "no-gpu", "no-gpu")
	require.NoError(t, s.web().Model.SetConfig("mode", "web"))
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777)) // tasks are no user of the unit
	}
	return s
}

func (s *story) apart(t *testing.T) {
	web := s.web()
	s.app.begin()
	db := web.Model.Relate(4, "postgresql", "postgresql")
	db.Units = map[string]map[string]string{"postgresql/0": {}}
	db.AppData = map[string]string{"database": s.pg.name, "endpoints": s.pg.address, "secret-user": userSecret}
	web.Model.Secrets = append(web.Model.Secrets, &jujutest.Secret{ID: strings.TrimPrefix(userSecret, "secret:"), Owner: "postgresql", Granted: true,
		Revisions: []map[string]string{{"username": s.pg.user, "password": s.pg.password}}})
	s.app.relation(web, "postgresql", "changed", "postgresql/0")
	tsa := web.Model.Relate(10, "tsa", "gpu")
	s.app.relation(web, "tsa", "created", "")
	for _, u := range s.app.units[1:] {
		flight := u.Model.Relate(10, "flight", "web")
		flight.Units["web/0"] = maps.Clone(relationOf(web, "tsa").Local)
		s.app.relation(u, "flight", "changed", "web/0")
		tsa.Units[gpuUnit(u)] = maps.Clone(relationOf(u, "flight").Local)
		tsa.Units[gpuUnit(u)]["ingress-address"] = u.Model.Address
		s.app.relation(web, "tsa", "changed", gpuUnit(u))
	}
	for _, u := range s.app.units[1:] {
		s.ready(u)
	}
	s.logsIn()
	until(t, func() bool { return s.has(s.nameOf(s.app.units[1])) && s.has(s.nameOf(s.app.units[2])) })
}

// gpuUnit is the worker's name in the relation.
func gpuUnit(u *unit) string { return strings.Replace(u.Model.Unit, u.Model.App(), "gpu", 1) }

// broken is the worker's end of the relation.
func (s *story) broken(u *unit) (sandbox.Result, error) {
	r, err := u.RelationHook(relationOf(u, "flight"), "departed", "web/0")
	if err != nil || r.Code != 0 {
		return r, err
	}
	delete(relationOf(u, "flight").Units, "web/0")
	return u.RelationHook(relationOf(u, "flight"), "broken", "")
}

// drained requires that the worker retired by itself.
func (s *story) drained(u *unit, r sandbox.Result, err error) {
	s.t.Helper()
	u.fine("flight-relation-broken", r, err)
	require.NotContains(s.t, logText(r.Logs), "could not drain")
	require.Equal(s.t, "inactive", u.state(concourse.Unit))
	require.False(s.t, slices.ContainsFunc(s.workers(), func(w concourse.WorkerInfo) bool { return w.Name == s.nameOf(u) }), "the web lists it")
}

func (s *story) idleGoes(t *testing.T) {
	web := s.web()
	b := s.starts("last")
	until(t, func() bool { return s.runs(b) }, "the task does not run")
	idle, busy := s.app.units[1], s.app.units[2]
	s.running = b
	for _, u := range []*unit{idle, busy} {
		delete(relationOf(web, "tsa").Units, gpuUnit(u))
		s.app.relation(web, "tsa", "departed", gpuUnit(u))
	}
	s.app.relation(web, "tsa", "broken", "")
	web.Model.Relations = slices.DeleteFunc(web.Model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == "tsa" })
	require.Contains(t, web.checks(), gpuUnit(busy)+" has left and drains until ")
	begin := time.Now()
	r, err := s.broken(idle)
	s.since(begin, "the idle worker has gone")
	s.drained(idle, r, err)
	require.False(t, b.ended())
}

func (s *story) busyEnds(t *testing.T) {
	busy, b := s.app.units[2], s.running
	type result struct {
		r   sandbox.Result
		err error
	}
	ended := make(chan result, 1)
	go func() {
		r, err := s.broken(busy)
		ended <- result{r, err}
	}()
	until(t, func() bool {
		return slices.ContainsFunc(s.workers(), func(w concourse.WorkerInfo) bool { return w.Name == s.nameOf(busy) && w.State == "retiring" })
	}, "it does not retire")
	// The web has other hooks which take nothing from it.
	s.app.hook(s.web(), "update-status")
	require.False(t, b.ended())
	s.letGo(b)
	r := <-ended
	s.drained(busy, r.r, r.err)
}

func (s *story) nothingToPrune(t *testing.T) {
	web := s.web()
	require.Empty(t, s.workers())
	s.app.hook(web, "update-status")
	require.Empty(t, read(web, concourse.HomeWebFiles().AuthorizedKeys()))
	require.Equal(t, "active: Web server ready (v"+releaseVersion(t)+") "+webAt, web.status())
	require.Empty(t, web.hook("update-status").Plan())
}
