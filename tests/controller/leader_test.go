//go:build controller

package controller

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// leader is an application of mode auto that has no database: who leads must be the web,
// and reports what it lacks; the others wait for it.
func (s *site) leader(t *testing.T) {
	const name, app = "leaders", "concourse-ci"
	const isWeb, isWorker = "blocked: PostgreSQL database required", "waiting: Waiting for the leader's web"
	release := filepath.Join(s.folder, "standin.tgz")
	standInRelease(t, release, "0")
	// roles reports whether of so many units that are there one is the web, and it leads.
	roles := func(m model, workers int) bool {
		leads := m.leader(app)
		if !strings.Contains(m.unit(leads).statusLine(), isWeb) {
			return false
		}
		for _, u := range m.units(app) {
			if u != leads && strings.Contains(m.unit(u).statusLine(), isWorker) {
				workers--
			}
		}
		return workers == 0
	}
	var lost string
	s.Sub(t, "the leader is the web and the other one a worker", func(t *testing.T) {
		s.juju("add-model", name)
		s.juju("model-config", "--model", name, "update-status-hook-interval=10s")
		s.juju("deploy", "--model", name, filepath.Join(s.folder, "first", charmName), app, "--num-units", "2", "--resource", "concourse-release="+release)
		lost = s.eventually(name, "two units have their roles", func(m model) bool { return roles(m, 1) }).leader(app)
	})
	s.Sub(t, "where the leader's machine is lost another unit is the web", func(t *testing.T) {
		container := s.model(name).container(lost)
		s.Run("", "lxc", "stop", "--force", container)
		s.eventually(name, "another unit leads and is the web", func(m model) bool {
			return m.leader(app) != lost && strings.Contains(m.unit(m.leader(app)).statusLine(), isWeb)
		})
		s.juju("add-unit", "--model", name, app)
		s.eventually(name, "a unit more is a worker", func(m model) bool {
			return len(m.units(app)) == 3 && strings.Contains(m.unit(app+"/2").statusLine(), isWorker)
		})
		s.Run("", "lxc", "start", container)
		m := s.eventually(name, "the former leader comes back as a worker", func(m model) bool {
			return m.unit(lost).Agent.Current == "idle" && roles(m, 2)
		})
		require.NotEqual(t, lost, m.leader(app))
		s.juju("destroy-model", "--no-prompt", "--destroy-storage", name)
	})
}
