//go:build controller

package controller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// webs is an application of webs and one of workers, of which the first web is lost.
func (s *site) webs(t *testing.T, m *mirror) {
	const name, web, worker = "concourse-test-web-worker", "web", "worker/0"
	isReady := func(m model, units int, but string) bool {
		n := 0
		for _, u := range m.units(web) {
			if u != but && strings.HasPrefix(m.unit(u).statusLine(), webReady) {
				n++
			}
		}
		return n == units
	}
	s.Sub(t, "deploy-test.sh passes where webs and workers are apart", func(t *testing.T) {
		s.deployTest(t, m, "web+worker", []string{"deploy", "verify"}, "--skip-cleanup")
	})
	f := s.newFly(t, name, web)
	s.Sub(t, "a web more shares keys and database", func(t *testing.T) {
		s.juju("add-unit", "--model", name, web)
		s.eventually(name, "two webs are ready", func(m model) bool { return isReady(m, 2, "") })
		s.comesTo(name, worker, workerReady)
	})
	s.Sub(t, "where the first web's machine is lost the other one leads, and the worker says that it waits", func(t *testing.T) {
		before := s.model(name)
		lost, password := before.leader(web), s.password(name, web)
		require.Equal(t, web+"/0", lost, "the worker's web is the first")
		s.Run("", "lxc", "stop", "--force", before.container(lost))
		s.eventually(name, "the other web leads and is ready", func(m model) bool {
			return m.leader(web) != lost && m.leader(web) != "" && isReady(m, 1, lost)
		})
		require.Equal(t, password, s.password(name, web))
		f.login()
		s.comesTo(name, worker, "waiting: Worker not registered at the web")
		s.Run("", "lxc", "start", before.container(lost))
		s.eventually(name, "both webs are ready", func(m model) bool { return isReady(m, 2, "") })
		s.comesTo(name, worker, workerReady)
		f.runs(t, 1)
	})
	s.Sub(t, "a removed application of workers finishes its task, and both webs let it", func(t *testing.T) { s.ends(t, f, m, "worker") })
	s.Sub(t, "deploy-test.sh destroys that model, too", func(t *testing.T) { s.deployTest(t, m, "web+worker", []string{"destroy"}) })
}
