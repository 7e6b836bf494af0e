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
)

// predecessorEnv names the Python charm as a packed file.
const (
	predecessorEnv = "PREDECESSOR_CHARM"
	noPredecessor  = predecessorEnv + " names no charm: set it to the Python charm's file, which has to hold all that it needs of Python"
)

// old is a deployment of the Python charm, on its way to this one or back.
type old struct {
	*site
	m                      *mirror
	f                      *fly
	model, python          string
	password, keys, worker string
	builds                 []string // newest first
}

// webAndWorker are its applications; while one is changed the other one is not.
var webAndWorker = []string{"web", "worker"}

// takeover is a web and a worker of the Python charm that this charm takes over,
// that go back, and are taken over once more.
func (s *site) takeover(t *testing.T, m *mirror) {
	if os.Getenv(predecessorEnv) == "" {
		t.Run("the Python charm", func(t *testing.T) { t.Skip(noPredecessor) })
		return
	}
	o := &old{site: s, m: m, model: "predecessor", python: filepath.Join(s.folder, "predecessor.charm"), builds: []string{}}
	require.NoError(t, copyFile(os.Getenv(predecessorEnv), o.python, 0o644))
	o.f = s.newFly(t, o.model, "web")
	cloudinit := s.github(t, m)
	s.Sub(t, "the Python charm runs a pipeline", func(t *testing.T) { o.deploy(t, cloudinit) })
	s.Sub(t, "the Python charm is taken over, and nobody is logged out", o.takeOver)
	s.Sub(t, "the Python charm comes back", o.goBack)
	s.Sub(t, "the Python charm is taken over again", func(t *testing.T) {
		o.takeOver(t)
		s.juju("destroy-model", "--no-prompt", "--destroy-storage", o.model)
	})
}

func (o *old) deploy(t *testing.T, cloudinit string) {
	o.juju("add-model", o.model)
	o.juju("model-config", "--model", o.model, "update-status-hook-interval=10s", "cloudinit-userdata="+cloudinit)
	o.juju("deploy", "--model", o.model, filepath.Join(o.folder, "postgresql.charm"), "postgresql")
	for _, app := range webAndWorker {
		o.juju("deploy", "--model", o.model, o.python, app, "--config", "mode="+app, "--config", "version="+o.m.new.number)
	}
	o.juju("integrate", "--model", o.model, "web:postgresql", "postgresql:database")
	o.juju("integrate", "--model", o.model, "worker:flight", "web:tsa")
	o.until("web", "it is installed", "test -e src/charm.py")
	o.until("worker", "it is installed", "test -e src/charm.py")
	o.f.login()
	o.f.pipeline()
	o.settles()
	o.keys, o.worker, o.password = o.hasKeys(), o.hasWorker(), o.site.password(o.model, "web")
	require.Contains(t, o.peers(), o.password, "for everybody to read")
}

// takeOver goes by docs/how-to/migrate.md, with the charm for this Juju. A task of the
// worker that is taken over goes on.
func (o *old) takeOver(t *testing.T) {
	for _, app := range webAndWorker {
		end := func() {}
		if app == "worker" {
			end = o.task(t)
		}
		o.juju("refresh", "--model", o.model, app, "--path", filepath.Join(o.folder, "takeover", charmName))
		// The same Juju drops a refresh's --config and does not report so.
		o.juju("config", "--model", o.model, app, "release-mirror="+o.m.url, "release-sha256="+o.m.new.sum)
		o.until(app, "it is taken over", "grep -q takeover version")
		end()
		require.True(t, o.f.build())
		o.history(t)
	}
	o.same(t)
	require.Equal(t, o.password, o.site.password(o.model, "web"))
	o.f.login()
	require.NotContains(t, o.peers(), "admin-password")
	// The worker's are used for as long as Concourse keeps a container of before.
	o.until("web", "the wrappers of runc are gone", "test ! -e /opt/bin")
}

// task runs on the worker until it must end, which it must do well.
func (o *old) task(t *testing.T) (end func()) {
	t.Helper()
	file := fmt.Sprintf("/end-%d", len(o.builds))
	c := o.f.command("execute", "-c", o.f.task("until wget -q -O /dev/null "+o.m.url+file+"; do sleep 1; done; echo the task has ended"))
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	require.NoError(t, c.Start())
	o.site.until("a task runs", func() bool { return o.f.runsOn() == o.worker })
	return func() {
		require.NoError(t, os.WriteFile(filepath.Join(o.m.folder, file), nil, 0o644))
		require.NoError(t, c.Wait(), said.String())
		require.Contains(t, said.String(), "the task has ended")
	}
}

// goBack runs the commands of docs/how-to/migrate.md, one by one.
func (o *old) goBack(t *testing.T) {
	for _, app := range webAndWorker {
		o.juju("refresh", "--model", o.model, app, "--path", o.python)
		o.until(app, "the Python charm is back", "test -e src/charm.py")
		o.juju("exec", "--model", o.model, "--application", app, "--",
			"systemctl disable --now concourse-pebble concourse-cdi-refresh.path concourse-cdi-refresh.timer; rm -f /var/lib/concourse-worker/worker-config.env /var/lib/concourse/config.env")
		for _, level := range []string{"debug", "info"} {
			o.juju("config", "--model", o.model, app, "log-level="+level)
			o.until(app, "it has written its settings", "cat /var/lib/concourse*/*.env | grep -q LOG_LEVEL="+level)
		}
		o.settles()
	}
	o.same(t)
	before := o.password
	o.password = o.site.password(o.model, "web")
	require.NotEqual(t, before, o.password)
	o.f.login()
}

// until waits until the application's unit is ready, has nothing to do, and the
// shell line succeeds in its charm's folder.
func (o *old) until(app, what, line string) {
	o.T.Helper()
	ready := map[string]string{"web": webReady, "worker": workerReady}[app]
	o.eventually(o.model, app+": "+what, func(m model) bool {
		u := m.unit(app + "/0")
		if u.Agent.Current != "idle" || !strings.HasPrefix(u.statusLine(), ready) {
			return false
		}
		_, err := o.try("exec", "--model", o.model, "--unit", app+"/0", "--", line)
		return err == nil
	})
}

// settles waits until a task runs to its end: the Python charm restarts its worker in
// hooks that come with the first container's network as well.
func (o *old) settles() {
	o.T.Helper()
	o.site.until("a task runs to its end", o.f.build)
	o.history(o.T)
}

// history has all builds of before, in their order.
func (o *old) history(t *testing.T) {
	t.Helper()
	var list []struct{ Name, Status string }
	o.f.ask(&list, "builds", "-j", "kept/job")
	var now []string
	for _, b := range list {
		now = append(now, b.Name+" "+b.Status)
	}
	require.Greater(t, len(now), len(o.builds))
	require.Equal(t, o.builds, now[len(now)-len(o.builds):])
	o.builds = now
}

// same holds what neither way may change.
func (o *old) same(t *testing.T) {
	t.Helper()
	require.Equal(t, o.keys, o.hasKeys())
	require.Equal(t, o.worker, o.hasWorker())
}

func (o *old) hasKeys() string {
	o.T.Helper()
	return o.juju("exec", "--model", o.model, "--unit", "web/0", "--", "cd /var/lib/concourse/keys && sha256sum tsa_host_key session_signing_key") +
		o.juju("exec", "--model", o.model, "--unit", "worker/0", "--", "cd /var/lib/concourse-worker/keys && sha256sum worker_key")
}

// hasWorker is the name of the one worker.
func (o *old) hasWorker() (name string) {
	o.T.Helper()
	list := o.f.workers()
	require.Len(o.T, list, 1)
	for worker, state := range list {
		require.Equal(o.T, "running", state)
		name = worker
	}
	return name
}

// peers returns the data that the web's application gives its own units.
func (o *old) peers() string {
	o.T.Helper()
	return o.juju("exec", "--model", o.model, "--unit", "web/0", "--", "relation-get -r $(relation-ids peers) --app - web")
}

// pipeline is one with one job, of one task.
func (f *fly) pipeline() {
	f.s.T.Helper()
	file := filepath.Join(f.home, "pipeline.yml")
	require.NoError(f.s.T, os.WriteFile(file, []byte(`jobs: [{name: job, plan: [{task: task, config: {
  platform: linux, image_resource: {type: registry-image, source: {repository: busybox}}, run: {path: "true"}}}]}]
`), 0o600))
	for _, args := range [][]string{{"set-pipeline", "-n", "-p", "kept", "-c", file}, {"unpause-pipeline", "-p", "kept"}} {
		out, err := f.command(args...).CombinedOutput()
		require.NoError(f.s.T, err, "%s", out)
	}
}

// build runs the pipeline's job, and reports whether it succeeded.
func (f *fly) build() bool {
	out, err := f.command("trigger-job", "-j", "kept/job", "--watch").CombinedOutput()
	if err != nil {
		fmt.Printf("%v: %s\n", err, out)
	}
	return err == nil
}
