//go:build e2e

package concourse

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// lingers is the first line of a task: Concourse may lose the output of one that ends at
// once.
const lingers = "trap 'sleep 1' EXIT"

const taskFile = `platform: linux
image_resource: {type: mock, source: {mirror_self: true}}
run:
  path: sh
  args:
  - -ec
  - |
    ` + lingers + `
    %s
`

// execute runs a one-off build on a worker with the tags of these.
func (s *story) execute(script string) (string, error) {
	s.t.Helper()
	return s.fly.run(s.oneOff("task", script)...)
}

// oneOff is such a build's arguments. Builds that begin at once need their own names, as
// fly reads the task's file later.
func (s *story) oneOff(name, script string) []string {
	s.t.Helper()
	args := []string{"execute", "-c", s.fly.write(name+".yml", fmt.Sprintf(taskFile, script))}
	for _, tag := range s.tags {
		args = append(args, "--tag", tag)
	}
	return args
}

func (s *story) task(t *testing.T) {
	out, err := s.execute(`echo hello; cat /srv/models/greeting; echo "cache: $MODEL_CACHE"; echo made > /srv/out_rw/by-a-task
    ls -ln /dev/kfd /dev/dri/renderD128; ! touch /srv/models/new`)
	require.NoError(t, err, out)
	worker := s.app.units[1].fake()
	for _, line := range []string{"\nhello", "\n" + greeting, "\ncache: /srv/models", numberOf(t, worker, "/dev/kfd"), numberOf(t, worker, "/dev/dri/renderD128"), "succeeded"} {
		require.Contains(t, out, line)
	}
	require.Contains(t, out, "/srv/models/new: Read-only file system")
	made := ""
	for _, u := range s.app.units[1:] {
		if u.Root.Exists("/srv/out_rw/by-a-task") {
			made += read(u, "/srv/out_rw/by-a-task")
		}
	}
	require.Equal(t, "made\n", made)
	begin := time.Now()
	out, err = s.execute("exit 3")
	require.ErrorContains(t, err, "exit status 3", out)
	s.since(begin, "a second task")
}

const pipeline = `
resources:
- {name: image, type: mock, tags: [gpu], check_every: never, source: {mirror_self: true}}
jobs:
- name: build
  plan:
  - {get: image, tags: [gpu]}
  - {task: t, tags: [gpu], image: image, config: {platform: linux, run: {path: echo, args: [hello]}}}
`

func (s *story) metrics(t *testing.T) {
	s.fly.must("set-pipeline", "-n", "-p", "plain", "-c", s.fly.write("pipeline.yml", pipeline))
	s.fly.must("unpause-pipeline", "-p", "plain")
	require.Contains(t, s.fly.must("trigger-job", "-j", "plain/build", "-w"), "succeeded")
	begin := time.Now()
	until(t, func() bool {
		return strings.Contains(get(t, "http://10.99.0.10:9358/metrics"), `concourse_job_last_build_status{job="build",pipeline="plain",team="main"} 1`)
	})
	s.since(begin, "the exporter shows the build")
	require.Contains(t, get(t, "http://10.99.0.10:9358/metrics"), "\nconcourse_exporter_up 1\n")
	require.Contains(t, get(t, "http://10.99.0.10:9391/metrics"), "concourse_builds_succeeded_total")
}

// get is what an address answers, "" if it does not.
func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(data)
}

// ready waits until a unit's own check passes, as a model does: the hook is run from
// time to time.
func (s *story) ready(u *unit) {
	s.t.Helper()
	until(s.t, func() bool {
		u.hook("update-status")
		return strings.HasPrefix(u.status(), "active: ")
	}, u.Model.Unit)
}

// D3: the leader changes, and changes back.
func (s *story) leads(t *testing.T) {
	paths := concourse.HomeWebFiles()
	password, host, session := s.app.password(), read(s.web(), paths.TSAHostKey()), read(s.web(), paths.SessionKey())
	first, second := s.app.units[0], s.app.units[1]
	for _, change := range []struct{ from, to *unit }{{first, second}, {second, first}} {
		begin, at := time.Now(), "http://"+change.to.Model.Address+":8080"
		s.app.lead(change.from, change.to)
		s.since(begin, change.to.Model.Unit+" is the web")
		require.Equal(t, "active: Web server ready (v"+releaseVersion(t)+") "+at, change.to.status())
		require.Equal(t, host, read(change.to, paths.TSAHostKey()))
		require.Equal(t, session, read(change.to, paths.SessionKey()))
		require.Equal(t, "inactive", change.to.state("concourse-worker.service"))
		require.Equal(t, "inactive", change.from.state("concourse-server.service"))
		for _, path := range []string{paths.Env(), paths.KeyDir(), concourse.WebUnitFile} {
			require.False(t, change.from.Root.Exists(path), "the old leader keeps %s", path)
		}
		s.api = concourse.NewAPI(at, "admin", password)
		for _, u := range s.app.units {
			if u != change.to {
				s.ready(u)
				until(t, func() bool { return s.has(s.nameOf(u)) }, u.Model.Unit)
			}
		}
		s.since(begin, "the workers are registered there")
		if _, ok := concourse.ReadWorkerID(change.to.Root, concourse.WorkFolder(false)); ok {
			until(t, func() bool { return !s.has(s.nameOf(change.to)) }, "the web's own worker of before runs")
			s.since(begin, "no work goes to the new leader")
		}
	}
	out, err := s.execute("echo hello")
	require.NoError(t, err, out)
}

const (
	registered = "worker.beacon-runner.beacon.registered"
	refused    = "ssh: unable to authenticate"
)

// D19: the key is taken back, by a reload and not a restart.
func (s *story) leaves(t *testing.T) {
	gone, stays := s.app.units[1], s.app.units[2]
	key := strings.TrimSpace(read(gone, concourse.WorkerKeyPublic))
	authorized := concourse.HomeWebFiles().AuthorizedKeys()
	require.Contains(t, read(s.web(), authorized), key)
	require.True(t, s.has(s.nameOf(gone)))
	before, starts, said := times(stays, registered), times(gone, refused), s.web().show("concourse-server", "InvocationID")
	s.app.leaves(gone)
	require.Contains(t, read(s.web(), authorized), key, "it may drain")
	require.True(t, s.has(s.nameOf(gone)))
	begin := time.Now()
	pruned := s.web().action("prune-worker", map[string]any{"worker": s.nameOf(gone)})
	require.Equal(t, s.nameOf(gone), pruned["pruned"])
	require.NotContains(t, read(s.web(), authorized), key)
	until(t, func() bool { return times(gone, refused) > starts }, "the worker keeps its connection")
	s.since(begin, "it is refused")
	require.Equal(t, "active", gone.state("concourse-worker.service"), "it goes on asking")
	require.Equal(t, before, times(stays, registered), "the other one keeps its connection")
	require.Equal(t, said, s.web().show("concourse-server", "InvocationID"), "the web was not restarted")
	until(t, func() bool { return !s.has(s.nameOf(gone)) })
	s.since(begin, "the web lists it no more")
	out, err := s.execute("echo hello")
	require.NoError(t, err, out)
	gone.must("systemctl stop concourse-worker.service")
}

func (s *story) rotates(t *testing.T) {
	worker := s.app.units[1]
	paths := concourse.HomeWebFiles()
	for _, keys := range []string{"session", "tsa-host"} {
		session, host, before := read(s.web(), paths.SessionKey()), read(s.web(), paths.TSAHostKey()), times(worker, registered)
		begin := time.Now()
		s.web().action("rotate-keys", map[string]any{"keys": keys})
		s.app.share(s.web())
		s.app.gossip()
		require.Equal(t, keys == "session", session != read(s.web(), paths.SessionKey()), keys)
		require.Equal(t, keys == "tsa-host", host != read(s.web(), paths.TSAHostKey()), keys)
		until(t, func() bool { return times(worker, registered) > before }, keys)
		for _, u := range s.app.units {
			s.ready(u)
		}
		until(t, func() bool { return s.has(s.nameOf(worker)) }, keys)
		s.since(begin, "all is back after a new key of "+keys)
	}
	// Concourse keeps tokens in its database and looks at no signature: who is
	// logged in stays so until the token ends, 24 hours later.
	s.fly.must("workers")
	begin, old := time.Now(), s.app.password()
	s.web().action("rotate-keys", map[string]any{"keys": "admin-password"})
	s.app.share(s.web())
	s.app.gossip()
	password := s.app.password()
	require.NotEqual(t, old, password)
	var wrong *concourse.LoginError
	until(t, func() bool {
		_, err := concourse.NewAPI(webAt, "admin", old).Workers(t.Context())
		return errors.As(err, &wrong)
	}, "the old password is good")
	s.api = concourse.NewAPI(webAt, "admin", password)
	s.since(begin, "the old password is refused")
	until(t, func() bool { return s.has(s.nameOf(worker)) })
	s.fly.must("login", "-c", webAt, "-u", "admin", "-p", password)
	out, err := s.execute("echo hello")
	require.NoError(t, err, out)
	require.Contains(t, out, "\nhello")
	until(t, func() bool {
		return strings.Contains(get(t, "http://10.99.0.10:9358/metrics"), "\nconcourse_exporter_up 1\n")
	}, "the exporter has the new password")
}

func (s *story) drains(t *testing.T) {
	worker := s.app.units[1]
	name := s.nameOf(worker)
	type result struct {
		out string
		err error
	}
	ended := make(chan result, 1)
	build := s.oneOff("task", "echo made > /srv/out_rw/started; sleep 20; echo finished")
	go func() {
		out, err := s.fly.run(build...)
		ended <- result{out, err}
	}()
	until(t, func() bool { return worker.Root.Exists("/srv/out_rw/started") })
	s.leavesBehind()
	require.Contains(t, worker.holders(), "sleep")
	begin := time.Now()
	worker.hook("stop")
	s.since(begin, "SIGUSR2, and the worker has ended")
	r := <-ended
	require.NoError(t, r.err, r.out)
	require.Contains(t, r.out, "\nfinished")
	require.Equal(t, "inactive", worker.state("concourse-worker.service"))
	require.Empty(t, worker.holders(), "what tasks left has the GPU")
	until(t, func() bool { return !s.has(name) })
	for _, w := range s.workers() {
		require.NotEqual(t, name, w.Name, "the web lists it, %s", w.State)
	}
}
