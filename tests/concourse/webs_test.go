//go:build e2e

package concourse

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// Two webs on one database go over the border of worker protocols one after the other, and
// back: builds are held until the second web has followed, and none is errored.
func TestTwoWebsOverTheBorderErrorNoBuild(t *testing.T) {
	tgz, next := bothReleases(t)
	s := newCrossing(t)
	s.app = &app{t: t}
	for n := range 2 {
		s.app.add(newUnitOf(t, "ci", n, "no-gpu", tgz, false), map[string]any{"mode": "web"})
	}
	gpu := &app{t: t}
	worker := newUnitOf(t, "gpu", 2, "amd", tgz, false)
	worker.Model.Leader = true
	gpu.add(worker, map[string]any{"mode": "worker", "compute-runtime": "auto", "amd-container-toolkit": "skip"})
	prepare(append(slices.Clone(s.app.units), worker)...)
	for _, u := range s.app.units {
		u.Model.Relate(10, "tsa", "gpu")
	}
	worker.Model.Relate(10, "flight", "ci")
	s.workers, s.settle = []*unit{worker}, func() { s.tellAll(worker) }

	s.app.begin()
	s.app.relate(s.pg)
	for _, u := range s.app.units {
		s.app.relation(u, "postgresql", "changed", "postgresql/0")
	}
	gpu.begin()
	s.settle()
	s.ready(worker)
	s.settle()
	s.logsIn()
	s.setPipeline()
	second := s.app.units[1]
	s.tell(t, []step{
		{"to the next release", func(t *testing.T) {
			before, running := s.run()
			s.offers(next)
			s.during(running, func() (sandbox.Result, error) { return s.web().Hook("upgrade-charm") })
			s.app.share(s.web())
			s.since(s.last, "the first web runs the next release")
			s.secondFollows(second, next, before)
		}},
		{"back to the release before", func(t *testing.T) {
			before, running := s.run()
			s.offers(tgz)
			s.takesBack(running)
			s.secondFollows(second, tgz, before)
		}},
	})
}

// secondFollows has the workers follow the first web, and then the second web.
func (s *crossing) secondFollows(second *unit, tgz, before string) {
	s.t.Helper()
	s.workersFollow(before)
	s.settle()
	require.True(s.t, s.web().Root.Exists(web.HoldFile), "until the second web has followed")
	second.Model.Resources["concourse-release"] = tgz
	s.app.hook(second, "upgrade-charm")
	require.Contains(s.t, second.status(), "Web server ready ")
	s.since(s.last, "the second web has followed")
	for _, u := range s.app.units {
		s.app.hook(u, "update-status")
		require.False(s.t, u.Root.Exists(web.HoldFile), u.Model.Unit)
	}
	s.end()
}

// tellAll lets the webs and a worker that is related to them hear of one another.
func (s *crossing) tellAll(worker *unit) {
	s.t.Helper()
	for range 2 {
		s.app.gossip()
		for _, u := range s.app.units {
			tsa, flight := relationOf(u, "tsa"), relationOf(worker, "flight")
			tsa.Units[worker.Model.Unit] = maps.Clone(flight.Local)
			hear(u, tsa, worker)
			s.app.share(u)
			flight.Units[u.Model.Unit] = maps.Clone(tsa.Local)
			hear(worker, flight, u)
		}
	}
}

func hear(u *unit, r *jujutest.Relation, of *unit) {
	u.t.Helper()
	result, err := u.RelationHook(r, "changed", of.Model.Unit)
	u.fine(r.Endpoint+"-relation-changed", result, err)
}
