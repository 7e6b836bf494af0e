//go:build controller

package controller

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	suites "github.com/fourdollars/concourse-ci-machine/tests/suite"
)

const (
	webReady    = "active: Web server ready (v"
	workerReady = "active: Worker ready (v"
)

// concourse is the life of a web, its database and its workers, all of Concourse.
func (s *site) concourse(t *testing.T) {
	release := releaseFolder(t)
	if release == "" {
		t.Run("Concourse itself", func(t *testing.T) { t.Skip(suites.NoRelease) })
		return
	}
	t.Setenv(suites.ReleaseEnv, release) // fly is looked for in a folder
	const name, app = deployTestModel, "concourse-ci"
	m := s.startMirror(t, release)
	s.Sub(t, "deploy-test.sh passes", func(t *testing.T) {
		s.deployTest(t, m, "auto", []string{"deploy", "verify", "mounts", "tagged", "rocm", "upgrade", "scale-out", "config"}, "--skip-cleanup")
	})
	f := s.newFly(t, name, app)
	s.Sub(t, "a user's password comes from a secret, and is another when that is", func(t *testing.T) { s.people(t, name, app) })
	s.Sub(t, "where the web's machine is lost a worker is the web, with the same password", func(t *testing.T) { s.failover(t, f) })
	s.Sub(t, "a removed worker finishes its task", func(t *testing.T) { s.drains(t, f, m) })
	s.Sub(t, "a task that does not end keeps no unit from its removal", func(t *testing.T) { s.cutsOff(t, f) })
	s.Sub(t, "deploy-test.sh destroys the model", func(t *testing.T) { s.deployTest(t, m, "auto", []string{"destroy"}) })
	s.ownMachine(t, m)
	s.webs(t, m)
	s.takeover(t, m)
	m.stop()
}

// people is a user of the option extra-local-users.
func (s *site) people(t *testing.T, name, app string) {
	web := s.model(name).leader(app)
	login := func(password string) bool {
		out, err := s.operator(t.Context(), nil, "curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--user", "fly:Zmx5",
			"--data-urlencode", "grant_type=password", "--data-urlencode", "username=guest", "--data-urlencode", "password="+password,
			"--data-urlencode", "scope=openid profile email federated:id groups", s.web(name, app)+"/sky/issuer/token").CombinedOutput()
		return err == nil && string(out) == "200"
	}
	uri := s.juju("add-secret", "--model", name, "people", "extra-local-users=guest:the-first-password")
	s.juju("config", "--model", name, app, "extra-local-users="+uri)
	s.comesTo(name, web, "blocked: extra-local-users: cannot read the secret")
	s.juju("grant-secret", "--model", name, "people", app)
	s.comesTo(name, web, webReady)
	s.until("the secret's user is let in", func() bool { return login("the-first-password") })
	s.juju("update-secret", "--model", name, "people", "extra-local-users=guest:the-second-password")
	s.until("the user is let in with the new password", func() bool { return login("the-second-password") })
	require.False(t, login("the-first-password"))
	s.comesTo(name, web, webReady)
	s.juju("config", "--model", name, app, "--reset", "extra-local-users")
	s.juju("remove-secret", "--model", name, "people")
}

// ready reports whether all units but one are, of which the leader is the web.
func ready(m model, app, but string) bool {
	for _, u := range m.units(app) {
		want := workerReady
		if u == m.leader(app) {
			want = webReady
		}
		if u != but && !strings.HasPrefix(m.unit(u).statusLine(), want) {
			return false
		}
	}
	return m.leader(app) != "" && m.leader(app) != but
}

func (s *site) failover(t *testing.T, f *fly) {
	before := s.eventually(f.model, "all are ready", func(m model) bool { return ready(m, f.app, "") })
	lost, password := before.leader(f.app), s.password(f.model, f.app)
	s.Run("", "lxc", "stop", "--force", before.container(lost))
	s.eventually(f.model, "another unit leads and is the web, and the other one its worker", func(m model) bool { return ready(m, f.app, lost) })
	require.Equal(t, password, s.password(f.model, f.app))
	f.login()
	f.runs(t, 1)
	s.Run("", "lxc", "start", before.container(lost))
	m := s.eventually(f.model, "the former web comes back as a worker", func(m model) bool { return ready(m, f.app, "") })
	require.NotEqual(t, lost, m.leader(f.app))
	f.runs(t, 2)
}

// runs waits for so many running workers, and runs a task.
func (f *fly) runs(t *testing.T, workers int) {
	t.Helper()
	f.s.until(fmt.Sprintf("%d workers run", workers), func() bool {
		n := 0
		for _, state := range f.workers() {
			if state == "running" {
				n++
			}
		}
		return n == workers
	})
	out, err := f.command("execute", "-c", f.task("echo the task ran; sleep 1")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "the task ran")
}

// drains: the task waits for a file of the mirror's, which is there when the worker
// is on its way out.
func (s *site) drains(t *testing.T, f *fly, m *mirror) {
	c := f.command("execute", "-c", f.task("until wget -q -O /dev/null "+m.url+"/end; do sleep 1; done; echo the task has ended; sleep 1"))
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	require.NoError(t, c.Start())
	worker, unit := f.where()
	s.juju("remove-unit", "--model", f.model, "--no-prompt", "--destroy-storage", unit)
	s.until(worker+" retires", func() bool { return f.workers()[worker] == "retiring" })
	// Juju 4.1 may run stop right after peers-relation-departed: the web keeps its key.
	require.NoError(t, os.WriteFile(filepath.Join(m.folder, "end"), nil, 0o644))
	require.NoError(t, c.Wait(), said.String())
	require.Contains(t, said.String(), "the task has ended")
	s.gone(t, f, worker, unit)
}

// gone waits until a removed unit is missing, and what the web knows of its worker.
func (s *site) gone(t *testing.T, f *fly, worker, unit string) {
	s.eventually(f.model, unit+" is gone", func(m model) bool { _, there := m.Applications[f.app].Units[unit]; return !there })
	s.until(worker+" is gone", func() bool { _, there := f.workers()[worker]; return !there })
	s.eventually(f.model, "the others are ready", func(m model) bool { return ready(m, f.app, "") })
}

// cutsOff: a worker with a task that did not end is deleted as it stops; if the web could
// not be informed, it is pruned.
func (s *site) cutsOff(t *testing.T, f *fly) {
	s.juju("config", "--model", f.model, f.app, "worker-drain-timeout=10s")
	c := f.command("execute", "-c", f.task("while true; do sleep 1; done"))
	require.NoError(t, c.Start())
	worker, unit := f.where()
	s.juju("remove-unit", "--model", f.model, "--no-prompt", "--destroy-storage", unit)
	s.eventually(f.model, unit+" is gone", func(m model) bool { _, there := m.Applications[f.app].Units[unit]; return !there })
	s.until(worker+" is gone or pruned", func() bool {
		if state, there := f.workers()[worker]; there {
			fmt.Println(state, s.juju("run", "--model", f.model, f.app+"/leader", "prune-worker", "worker="+worker))
			return false
		}
		return true
	})
	require.Error(t, c.Wait(), "the build has not succeeded")
	s.gone(t, f, worker, unit)
}
