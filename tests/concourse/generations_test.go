//go:build e2e

package concourse

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
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

// crossing is an application with a release that changes over a border of worker protocols
// while builds run.
type crossing struct {
	*story
	workers []*unit
	settle  func() // lets all units hear of one another
}

// An upgrade to a release with a web that gives the workers of the one before nothing, and
// the way back: running builds end, those that are triggered wait, and none is errored.
func TestUpgradeToWorkersOfAnotherProtocolErrorsNoBuild(t *testing.T) {
	tgz, nextTgz := bothReleases(t)
	s := newCrossing(t)
	s.app = newApp(t, tgz, map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip"}, "no-gpu", "amd", "amd")
	s.workers, s.settle = s.app.units[1:], s.app.gossip
	prepare(s.app.units...)
	s.isUp()
	s.setPipeline()
	s.tell(t, []step{
		{"to the next release", func(t *testing.T) { s.upgrades(nextTgz) }},
		{"back to the release before", func(t *testing.T) { s.goesBack(tgz) }},
	})
}

func newCrossing(t *testing.T) *crossing {
	return &crossing{story: &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}}
}

// bothReleases packs the release and the next one.
func bothReleases(t *testing.T) (tgz, next string) {
	t.Helper()
	tgz = releaseTarball(t)
	if next = os.Getenv(suite.NextReleaseEnv); next == "" {
		t.Skipf("%s names no release of Concourse that comes after that of %s", suite.NextReleaseEnv, suite.ReleaseEnv)
	}
	next, err := pack(next, "next.tgz")
	require.NoError(t, err)
	return tgz, next
}

// prepare gives units the settings of these tests, and a folder for tasks.
func prepare(units ...*unit) {
	for _, u := range units {
		require.NoError(u.t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(u.t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(u.t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777))
	}
}

func (s *crossing) setPipeline() {
	s.t.Helper()
	s.fly.must("set-pipeline", "-n", "-p", "up", "-c", s.fly.write("up.yml", waits))
	s.fly.must("unpause-pipeline", "-p", "up")
}

// run triggers two builds and waits until they run.
func (s *crossing) run() (before string, running int) {
	s.t.Helper()
	for _, u := range s.workers {
		require.NoError(s.t, u.Root.Remove("/srv/out_rw/end"))
	}
	running = s.tasks() + 2
	s.fly.must("trigger-job", "-j", "up/one")
	s.fly.must("trigger-job", "-j", "up/one")
	until(s.t, func() bool { return s.tasks() == running }, "the builds do not run")
	return s.story.workers()[0].Version, running
}

// tasks counts the tasks that have begun.
func (s *crossing) tasks() (n int) {
	for _, u := range s.workers {
		files, err := u.Root.Glob("/srv/out_rw/begun-*")
		require.NoError(s.t, err)
		n += len(files)
	}
	return n
}

// offers attaches another release for the web and the workers, which take it after the web.
func (s *crossing) offers(tgz string) {
	s.t.Helper()
	s.web().Model.Resources["concourse-release"] = tgz
	for _, u := range s.workers { // their hooks come first: they wait for the web
		u.Model.Resources["concourse-release"] = tgz
		u.hook("upgrade-charm")
		require.Contains(s.t, lastStatus(u), "the attached release")
	}
}

// during does something that waits for the running builds, and triggers another build then.
func (s *crossing) during(running int, do func() (sandbox.Result, error)) sandbox.Result {
	s.t.Helper()
	type ended struct {
		sandbox.Result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		r, err := do()
		done <- ended{r, err}
	}()
	until(s.t, func() bool { return s.held() }, "builds are not held")
	require.True(s.t, s.web().Root.Exists(web.HoldFile))
	s.fly.must("trigger-job", "-j", "up/one")
	for range 3 {
		time.Sleep(time.Second)
		require.Equal(s.t, running, s.tasks(), "a build begins though builds are held")
	}
	for _, u := range s.workers {
		require.NoError(s.t, u.Root.WriteFile("/srv/out_rw/end", nil, 0o644))
	}
	r := <-done
	return s.web().fine("the web", r.Result, r.err)
}

// follow lets the workers follow the web, and all builds end.
func (s *crossing) follow(before string) {
	s.t.Helper()
	require.True(s.t, s.web().Root.Exists(web.HoldFile), "until the workers follow")
	s.app.hook(s.web(), "update-status")
	require.Contains(s.t, lastStatus(s.web()), "builds are held until they follow")
	s.workersFollow(before)
	s.settle()
	s.end()
}

// workersFollow waits until the workers have another version than before.
func (s *crossing) workersFollow(before string) {
	s.t.Helper()
	s.settle()
	until(s.t, func() bool {
		running := 0
		for _, w := range s.story.workers() {
			if w.State == "running" && w.Version != before {
				running++
			}
		}
		return running == len(s.workers)
	}, "the workers do not follow")
	s.since(s.last, "the workers follow")
}

// end lets all builds end once they are not held any more.
func (s *crossing) end() {
	s.t.Helper()
	require.False(s.t, s.web().Root.Exists(web.HoldFile))
	s.fly.must("sync") // it refuses to talk to a web of another minor version
	require.False(s.t, s.held())
	var states []string
	until(s.t, func() bool {
		states = nil
		for _, b := range s.builds("up/one") {
			states = append(states, b.Status)
		}
		return !slices.Contains(states, "pending") && !slices.Contains(states, "started")
	}, "the builds come to no end")
	s.since(s.last, "the builds have ended")
	for _, state := range states {
		require.Equal(s.t, "succeeded", state, "%v", states)
	}
	require.Len(s.t, states, s.tasks())
}

func (s *crossing) upgrades(tgz string) {
	before, running := s.run()
	s.offers(tgz)
	s.during(running, func() (sandbox.Result, error) { return s.web().Hook("upgrade-charm") })
	s.app.share(s.web())
	s.since(s.last, "the web runs the next release")
	s.follow(before)
}

// takesBack has the web refuse an older release, and run the action that its status names.
// running is how many tasks have begun then.
func (s *crossing) takesBack(running int) {
	s.t.Helper()
	s.app.hook(s.web(), "upgrade-charm")
	require.Contains(s.t, lastStatus(s.web()), "cannot go from Concourse ")
	schema := regexp.MustCompile(`run-migrations target-version=(\d+)`).FindStringSubmatch(lastStatus(s.web()))
	require.NotEmpty(s.t, schema, lastStatus(s.web()))
	require.False(s.t, s.held())
	r := s.during(running, func() (sandbox.Result, error) {
		return s.web().act("run-migrations", map[string]any{"target-version": schema[1]})
	})
	require.Equal(s.t, "completed", r.Action.Status, r.Action.Message)
	s.t.Logf("run-migrations: %v", r.Action.Results)
	s.app.hook(s.web(), "update-status")
	require.Contains(s.t, lastStatus(s.web()), "Web server ready (v"+releaseVersion(s.t)+")")
	s.since(s.last, "the web runs the release before")
}

// goesBack follows docs/how-to/upgrade.md.
func (s *crossing) goesBack(tgz string) {
	before, running := s.run()
	s.offers(tgz)
	s.takesBack(running)
	s.follow(before)
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
