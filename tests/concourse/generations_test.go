//go:build e2e

package concourse

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/testutil/sandbox"
	"concourse-ci-machine/tests/suite"
)

const waits = `
jobs:
- name: one
  plan:
  - task: t
    tags: [gpu]
    config:
      platform: linux
      image_resource: {type: mock, source: {mirror_self: true}, version: {version: mock}}
      run: {path: sh, args: [-ec, "touch /srv/out_rw/begun-$(cat /proc/sys/kernel/random/uuid); while [ ! -e /srv/out_rw/end ]; do sleep 1; done"]}
`

// An upgrade to a release whose web gives the workers of the one before nothing: a running
// build ends, those that are triggered meanwhile wait, and none is errored.
func TestUpgradeToWorkersOfAnotherProtocolErrorsNoBuild(t *testing.T) {
	tgz := releaseTarball(t)
	next := os.Getenv(suite.NextReleaseEnv)
	if next == "" {
		t.Skipf("%s names no release of Concourse that comes after that of %s", suite.NextReleaseEnv, suite.ReleaseEnv)
	}
	nextTgz, err := pack(next, "next.tgz")
	require.NoError(t, err)
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}
	s.app = newApp(t, tgz, map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip"}, "no-gpu", "amd", "amd")
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777))
	}
	workers := s.app.units[1:]
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.registers()
	s.logsIn()
	before := s.workers()[0].Version
	s.fly.must("set-pipeline", "-n", "-p", "up", "-c", s.fly.write("up.yml", waits))
	s.fly.must("unpause-pipeline", "-p", "up")
	begun := func() (n int) {
		for _, u := range workers {
			files, err := u.Root.Glob("/srv/out_rw/begun-*")
			require.NoError(t, err)
			n += len(files)
		}
		return n
	}
	s.fly.must("trigger-job", "-j", "up/one")
	s.fly.must("trigger-job", "-j", "up/one")
	until(t, func() bool { return begun() == 2 }, "the builds do not run")

	for _, u := range s.app.units {
		u.Model.Resources["concourse-release"] = nextTgz
	}
	for _, u := range workers { // their hooks come first: they wait for the web
		s.app.hook(u, "upgrade-charm")
		require.Contains(t, lastStatus(u), "the attached release")
	}
	type ended struct {
		sandbox.Result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		r, err := s.web().Hook("upgrade-charm")
		done <- ended{r, err}
	}()
	until(t, func() bool { return s.held() }, "builds are not held")
	require.True(t, s.web().Root.Exists(web.HoldFile))
	s.fly.must("trigger-job", "-j", "up/one")
	for range 3 {
		time.Sleep(time.Second)
		require.Equal(t, 2, begun(), "a build begins though builds are held")
	}
	for _, u := range workers {
		require.NoError(t, u.Root.WriteFile("/srv/out_rw/end", nil, 0o644))
	}
	r := <-done
	s.web().fine("upgrade-charm", r.Result, r.err)
	s.app.share(s.web())
	s.since(s.begun, "the web runs the next release")
	require.True(t, s.web().Root.Exists(web.HoldFile), "until the workers follow")
	s.app.hook(s.web(), "update-status")
	require.Contains(t, lastStatus(s.web()), "builds are held until they follow")

	s.app.gossip()
	until(t, func() bool {
		running := 0
		for _, w := range s.workers() {
			if w.State == "running" && w.Version != before {
				running++
			}
		}
		return running == len(workers)
	}, "the workers do not follow")
	s.app.gossip()
	require.False(t, s.web().Root.Exists(web.HoldFile))
	s.since(s.begun, "the workers follow")
	s.fly.must("sync") // it refuses to talk to a web that is so much newer
	require.False(t, s.held())
	var states []string
	until(t, func() bool {
		states = nil
		for _, b := range s.builds("up/one") {
			states = append(states, b.Status)
		}
		return !strings.Contains(strings.Join(states, " "), "pending") && !strings.Contains(strings.Join(states, " "), "started")
	}, "the builds come to no end")
	require.Equal(t, []string{"succeeded", "succeeded", "succeeded"}, states)
}

// held reports whether the webs start no builds of jobs.
func (s *story) held() bool {
	s.t.Helper()
	var components []struct {
		Name   string
		Paused bool
	}
	require.NoError(s.t, json.Unmarshal([]byte(s.fly.must("curl", "/api/v1/components", "--", "--silent")), &components))
	for _, c := range components {
		if c.Name == "scheduler" {
			return c.Paused
		}
	}
	require.Fail(s.t, "the web has no scheduler")
	return false
}

// lastStatus returns the text of the last status that the unit set.
func lastStatus(u *unit) string { return u.Model.Statuses[len(u.Model.Statuses)-1].Message }
