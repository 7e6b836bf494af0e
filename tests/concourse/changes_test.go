//go:build e2e

package concourse

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	database "github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// seedEnv has the seed of a failed TestOptionChangesLoseNoBuild.
const seedEnv = "CHANGES_SEED"

// long has a job with a GPU and one without, with a task that runs until /srv/out_rw/end exists.
const long = `
jobs:
- name: gpu
  plan: [{task: t, tags: [gpu], config: &task {platform: linux, image_resource: {type: mock, source: {mirror_self: true}, version: {version: mock}},
    run: {path: sh, args: [-ec, "touch /srv/out_rw/begun-$(cat /proc/sys/kernel/random/uuid); while [ ! -e /srv/out_rw/end ]; do sleep 1; done"]}}}]
- name: cpu
  plan: [{task: t, config: *task}]
`

// changed lists options with valid values, for the web and for both workers.
var changed = map[string]map[string][]any{
	"web": {"log-level": {"debug", "info"}, "extra-web-flags": {"--max-checks-per-second=10", "--max-active-tasks-per-worker=0", ""},
		"enable-metrics": {true, false}, "container-placement-strategy": {"fewest-build-containers", "volume-locality"},
		"required-archs": {"gfx942", ""}, "external-url": {webAt, ""}},
	"gpu": {"compute-runtime": {"none", "rocm", "auto"}, "gpu-sharing": {"exclusive", "shared"}, "tag": {"slow", "", "a,b"},
		"gpu-quarantine": {"off", "auto"}, "log-level": {"debug", "info"}, "srv-folders": {"none", "all"}, "gpu-device-ids": {"0", "1", "all"},
		"containerd-dns-server": {"9.9.9.9", "1.1.1.1,8.8.8.8"}, "worker-drain-timeout": {"1h", "2h"}, "task-env": {"A=1", ""}},
	"cpu": {"tag": {"slow", "", "c"}, "log-level": {"debug", "info"}, "srv-folders": {"none", "all"}, "compute-runtime": {"auto", "none"}},
}

// changes holds a web and two workers of other applications. Their options change under builds.
type changes struct {
	*story
	apps map[string]*unit // by the application
}

// No build is lost whatever options of the web and of workers change under it, in any order:
// the web is restarted and takes up its builds again, and workers keep what their tasks have.
// Options of workers restart the web only if they change its limit of tasks, which is the number
// of leased GPUs of a worker that can't limit itself.
func TestOptionChangesLoseNoBuild(t *testing.T) {
	tgz := releaseTarball(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("%s=%d", seedEnv, seed)
	s := &changes{story: &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}, apps: map[string]*unit{}}
	s.deploy(tgz)

	const each = 5
	s.fly.must("set-pipeline", "-n", "-p", "long", "-c", s.fly.write("long.yml", long))
	s.fly.must("unpause-pipeline", "-p", "long")
	s.holds()
	for n := range each {
		s.fly.must("trigger-job", "-j", "long/gpu")
		if n > 0 { // one is there
			s.fly.must("trigger-job", "-j", "long/cpu")
		}
	}
	within(t, 20*time.Minute, func() bool { return s.begun("gpu")+s.begun("cpu") == 2*each }, "the builds do not run")
	s.since(s.story.begun, "the builds run")

	always := []any{"none", "rocm"}
	random, restarts := rand.New(rand.NewPCG(seed, 0)), 0
	for n := range 20 {
		app := []string{"web", "gpu", "gpu", "cpu"}[random.IntN(4)]
		options := slices.Sorted(maps.Keys(changed[app]))
		option := options[random.IntN(len(options))]
		value := changed[app][option][random.IntN(len(changed[app][option]))]
		if n < len(always) {
			app, option, value = "gpu", "compute-runtime", always[n]
		}
		watch := s.fly.command("watch", "-j", "long/gpu")
		require.NoError(t, watch.Start())
		began, before, limit := time.Now(), s.web().show("concourse-server", "InvocationID"), s.limit()
		require.NoError(t, s.apps[app].Model.SetConfig(option, value))
		s.apps[app].hook("config-changed")
		s.hear()
		if s.web().show("concourse-server", "InvocationID") != before {
			restarts++
			require.True(t, app == "web" || s.limit() != limit, "seed %d: %s=%v of %s restarted the web", seed, option, value, app)
		}
		t.Logf("%d: %s %s=%v in %.1f s", n, app, option, value, time.Since(began).Seconds())
		s.none("seed %d, %s %s=%v", seed, app, option, value)
		watch.Process.Kill() // it may have ended with the web
		watch.Wait()
	}
	t.Logf("the web was restarted %d times", restarts)

	for _, u := range s.app.units[1:] {
		require.NoError(t, u.Root.WriteFile("/srv/out_rw/end", nil, 0o644))
	}
	within(t, 15*time.Minute, func() bool {
		return !slices.ContainsFunc(append(s.builds("long/gpu"), s.builds("long/cpu")...), func(b buildOf) bool { return b.Status == "started" })
	}, "the builds come to no end")
	for _, job := range []string{"long/gpu", "long/cpu"} {
		require.Len(t, s.builds(job), each)
		for _, b := range s.builds(job) {
			require.Equal(t, "succeeded", b.Status, "seed %d: %s #%s", seed, job, b.Name)
		}
	}
	for _, u := range s.app.units[1:] { // tags that waited follow
		until(t, func() bool {
			u.hook("update-status")
			return strings.HasPrefix(u.status(), "active: ") && !strings.Contains(u.status(), "new tags wait")
		}, u.Model.Unit)
		require.Empty(t, u.hook("update-status").Plan())
	}
}

// holds requires that the web takes up no build during a hold, and then does.
func (s *changes) holds() {
	s.t.Helper()
	db := database.Config{Host: gateway, Port: 5432, User: s.pg.user, Password: s.pg.password, Name: s.pg.name, SSLMode: "disable"}
	require.NoError(s.t, database.HoldTracker(s.t.Context(), db, func(context.Context) error {
		begun := s.refused()
		s.fly.must("trigger-job", "-j", "long/cpu")
		within(s.t, 10*time.Minute, func() bool { return s.builds("long/cpu")[0].Status == "started" }, "the build is not scheduled")
		until(s.t, func() bool { return s.refused() > begun }, "the web does not try to take up the build")
		require.Zero(s.t, s.begun("cpu"), "the web takes up a build though that is held")
		return nil
	}))
	within(s.t, 10*time.Minute, func() bool { return s.begun("cpu") == 1 }, "the web takes up no build after the hold")
}

// refused counts how often the web could not take up builds because of the hold.
func (s *changes) refused() (n int) {
	for line := range strings.Lines(s.web().said("concourse-server")) {
		if strings.Contains(line, ".tracker.") && strings.Contains(line, "lock-unavailable") {
			n++
		}
	}
	return n
}

// limit returns the web's limit of tasks for each worker.
func (s *changes) limit() string {
	return concourse.EnvValues([]byte(read(s.web(), concourse.HomeWebFiles().Env())))[concourse.TaskLimitKey]
}

// deploy brings up the web and both workers.
func (s *changes) deploy(tgz string) {
	s.t.Helper()
	db := startedWeb(s.story, tgz)
	s.apps["web"] = db
	for n, name := range []string{"gpu", "cpu"} {
		u := newUnitOf(s.t, name, n+1, map[string]string{"gpu": "mi210x4", "cpu": "no-gpu"}[name], tgz, false)
		u.Model.Leader = true
		one := &app{t: s.t}
		one.add(u, map[string]any{"mode": "worker", "amd-container-toolkit": "skip", "worker-drain-timeout": "1h"})
		if name == "gpu" {
			require.NoError(s.t, u.Model.SetConfig("compute-runtime", "rocm"))
		}
		prepare(u)
		u.Model.Relate(10+n, "flight", "ci")
		s.web().Model.Relate(10+n, "tsa", name)
		s.apps[name] = u
		one.begin()
		s.app.units = append(s.app.units, u)
	}
	s.hear()
	for _, u := range s.app.units[1:] {
		s.ready(u)
	}
	s.hear()
	s.logsIn()
	within(s.t, 10*time.Minute, func() bool { return s.has(s.nameOf(s.apps["gpu"])) && s.has(s.nameOf(s.apps["cpu"])) }, "the workers are not there")
}

// startedWeb makes a web with a database.
func startedWeb(s *story, tgz string) *unit {
	s.t.Helper()
	u := newUnitOf(s.t, "ci", 0, "no-gpu", tgz, false)
	s.app = &app{t: s.t}
	s.app.add(u, map[string]any{"mode": "web", "log-level": "debug"}) // refused reads it
	prepare(u)
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(u, "postgresql", "changed", "postgresql/0")
	return u
}

// hear lets the web and the workers hear of one another.
func (s *changes) hear() {
	s.t.Helper()
	web := s.web()
	for range 2 {
		for _, u := range s.app.units[1:] {
			flight := relationOf(u, "flight")
			i := slices.IndexFunc(web.Model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == "tsa" && r.ID == flight.ID })
			tsa := web.Model.Relations[i]
			tsa.Units[u.Model.Unit] = maps.Clone(flight.Local)
			tsa.Units[u.Model.Unit]["ingress-address"] = u.Model.Address
			hear(web, tsa, u)
			flight.Units[web.Model.Unit] = maps.Clone(tsa.Local)
			hear(u, flight, web)
		}
	}
}

// begun counts the tasks that have begun on a worker.
func (s *changes) begun(app string) int {
	files, err := s.apps[app].Root.Glob("/srv/out_rw/begun-*")
	require.NoError(s.t, err)
	return len(files)
}

// none requires that no build has ended.
func (s *changes) none(format string, args ...any) {
	s.t.Helper()
	for _, job := range []string{"long/gpu", "long/cpu"} {
		for _, b := range s.builds(job) {
			if b.Status != "started" {
				require.Fail(s.t, "a build is lost: "+b.Status, "%s: %s #%s\n%s", fmt.Sprintf(format, args...), job, b.Name, s.said(b))
			}
		}
	}
}

// said returns the output of a build.
func (s *changes) said(b buildOf) string {
	out, _ := s.fly.run("watch", "-b", strconv.Itoa(b.ID))
	return out
}
