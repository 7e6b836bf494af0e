//go:build e2e

package concourse

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// TestWorkerOfTwoWebs has two webs on one database, and a worker that is related to them.
func TestWorkerOfTwoWebs(t *testing.T) {
	tgz := releaseTarball(t)
	s := newCrossing(t)
	s.app = &app{t: t}
	for n := range 2 {
		s.app.add(newUnitOf(t, "ci", n, "no-gpu", tgz, false), map[string]any{"mode": "web"})
	}
	worker := newUnitOf(t, "gpu", 2, "no-gpu", tgz, false)
	worker.Model.Leader = true
	gpu := &app{t: t}
	gpu.add(worker, map[string]any{"mode": "worker"})
	prepare(append(gpu.units, s.app.units...)...)
	for _, u := range s.app.units {
		u.Model.Relate(10, "tsa", "gpu")
	}
	worker.Model.Relate(10, "flight", "ci")
	s.workers = []*unit{worker}
	s.app.begin()
	s.app.relate(s.pg)
	for _, u := range s.app.units {
		s.app.relation(u, "postgresql", "changed", "postgresql/0")
	}
	gpu.begin()
	s.tellAll(worker)
	s.ready(worker)
	s.tellAll(worker)
	s.logsIn()
	s.tell(t, []step{
		{"the worker goes to the other web when its own stops", s.goesToTheOther},
		{"a worker's new key takes the place of its old one", s.changesKey},
		{"a worker without a web lands and stays so", s.landsAlone},
	})
}

func (s *crossing) goesToTheOther(t *testing.T) {
	worker := s.workers[0]
	require.Contains(t, read(worker, concourse.EnvFile), "CONCOURSE_TSA_HOST=10.99.0.10:2222,10.99.0.11:2222\n")
	links := worker.must("ss --no-header --tcp --numeric state established dport = :2222")
	of := s.app.units[0]
	if !strings.Contains(links, of.Model.Address+":2222") {
		of = s.app.units[1]
	}
	require.Contains(t, links, of.Model.Address+":2222")
	begin, before := time.Now(), times(worker, registered)
	of.must("systemctl stop concourse-server.service")
	until(t, func() bool { return times(worker, registered) > before }, "it does not register at the other web")
	s.since(begin, "the worker has registered at the other web")
	worker.hook("update-status")
	require.Contains(t, worker.status(), "active: ")
	of.must("systemctl start concourse-server.service")
	s.ready(of)
}

func (s *crossing) changesKey(t *testing.T) {
	worker := s.workers[0]
	name, before := s.nameOf(worker), times(worker, registered)
	old := read(worker, concourse.WorkerKeyPublic)
	worker.action("rotate-keys", map[string]any{"keys": "all"})
	s.tellAll(worker)
	now := read(worker, concourse.WorkerKeyPublic)
	require.NotEqual(t, old, now)
	until(t, func() bool { return times(worker, registered) > before }, "it does not register with its new key")
	for _, u := range s.app.units {
		require.Equal(t, now, read(u, concourse.HomeWebFiles().AuthorizedKeys()), u.Model.Unit)
		require.NotContains(t, u.status(), "has left")
	}
	until(t, func() bool { return s.has(name) })
	r, err := s.web().act("prune-worker", map[string]any{"worker": name})
	s.web().fine("prune-worker", r, err)
	require.Contains(t, r.Action.Message, "it is running; stop it first")
	require.Equal(t, now, read(s.web(), concourse.HomeWebFiles().AuthorizedKeys()))
	require.True(t, s.has(name))
}

func (s *crossing) landsAlone(t *testing.T) {
	worker := s.workers[0]
	for _, u := range s.app.units {
		u.must("systemctl stop concourse-server.service")
	}
	begin := time.Now()
	require.Equal(t, "true", worker.action("land-worker", nil)["landed"])
	s.since(begin, "the worker has landed")
	require.Equal(t, "inactive", worker.state(concourse.Unit))
	for _, u := range s.app.units {
		u.must("systemctl start concourse-server.service")
		s.ready(u)
	}
	require.Empty(t, worker.hook("update-status").Plan())
	require.Equal(t, "inactive", worker.state(concourse.Unit), "the web is back, and the worker takes no work")
	worker.action("restart-services", nil)
	s.ready(worker)
}
