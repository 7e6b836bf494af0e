//go:build e2e

package concourse

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

const (
	greeting = "hello from a folder of the unit"
	webAt    = "http://10.99.0.10:8080"
)

// impatient are an operator's own settings: a worker that has left is stalled in 10 s and
// not 60, and builds are scheduled each second and not every tenth.
const impatient = "CONCOURSE_TSA_HEARTBEAT_INTERVAL=5s\nCONCOURSE_COMPONENT_RUNNER_INTERVAL=1s\n"

// TestAnApplicationOfModeAuto is one application from its deployment to the
// removal of a worker. Its steps are in order: each finds what the last left.
func TestAnApplicationOfModeAuto(t *testing.T) {
	tgz := releaseTarball(t)
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}
	s.app = newApp(t, tgz, map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip",
		"enable-metrics": true, "task-env": "MODEL_CACHE=/srv/models"}, "no-gpu", "amd", "amd")
	s.collector = newCollector(t, s.app.units)
	for _, u := range s.app.units[1:] {
		u.freeMemory()
	}
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.WriteFile("/srv/models/greeting", []byte(greeting+"\n"), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777)) // tasks are no user of the unit
	}
	s.tell(t, []step{
		{"three units with a database are a web and two workers", s.deploys},
		{"the variables that the charm wrote are known", s.variables},
		{"the status of each unit is what really answers", s.checks},
		{"a task with the tags of the workers runs and has the unit's GPU, folders and environment", s.task},
		{"the web and the workers send the traces of a task where the relation says", s.traces},
		{"the tasks that the charm brings run, and fail where they should", s.ownTasks},
		{"the build shows why the wrapper refuses a task", s.refusal},
		{"the metrics of a job are served", s.metrics},
		{"a check, a get and a task without tags have no GPU", s.others},
		{"checks, gets and tasks trust the authorities that are given, as they change", s.trusts},
		{"a GPU is one task's at a time where it is exclusive", s.exclusive},
		{"a build is told that its GPU fell sick, and ended where that is wanted", s.met},
		{"a restart of the worker leaves its tasks and nothing else", s.restarts},
		{"another leader is the web with the same keys, and the old one a worker", s.leads},
		{"a worker whose unit has left is cut off and does not come back", s.leaves},
		{"new keys are told to all", s.rotates},
		{"a privileged task has the GPU as its lease", s.privileged},
		{"a worker that is removed finishes its task first, and what tasks left ends with it", s.drains},
	})
}

// step is a part of a story, which builds on those before it.
type step struct {
	name string
	do   func(*testing.T)
}

// tell runs steps until one fails.
func (s *story) tell(t *testing.T, steps []step) {
	for _, step := range steps {
		s.last = time.Now()
		if !t.Run(step.name, func(t *testing.T) {
			s.in(t)
			step.do(t)
		}) {
			return
		}
		t.Logf("%.1f s: %s", time.Since(s.last).Seconds(), step.name)
	}
	t.Logf("%.1f s in all", time.Since(s.begun).Seconds())
}

// story is what the steps share.
type story struct {
	t           *testing.T
	begun, last time.Time
	pg          *postgres
	app         *app
	api         *concourse.API
	home        string // of fly
	fly         *fly
	tags        []string // of the workers
	collector   *collector
	running     *oneBuild // from one step to the next
}

// in makes failures belong to a step.
func (s *story) in(t *testing.T) {
	s.t, s.app.t = t, t
	for _, u := range s.app.units {
		u.t = t
	}
	if s.fly != nil {
		s.fly.t = t
	}
}

// since reports how long something took.
func (s *story) since(begin time.Time, what string) {
	s.t.Helper()
	s.t.Logf("%.1f s: %s", time.Since(begin).Seconds(), what)
}

func (s *story) web() *unit { return s.app.units[0] }

func (s *story) deploys(t *testing.T) {
	a := s.app
	a.begin()
	s.since(s.last, "the units are installed")
	require.Equal(t, "waiting: Waiting for the leader's web: see the leader's status", a.units[1].status())
	begin := time.Now()
	a.relate(s.pg)
	a.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.since(begin, "the web is up")
	require.Equal(t, "active: Web server ready (v"+releaseVersion(t)+") "+webAt, s.web().status())
	begin = time.Now()
	s.registers()
	for _, u := range a.units[1:] {
		require.Equal(t, "active: Worker ready (v"+releaseVersion(t)+") (GPU: 1x AMD) (2 folders: 1 read-only, 1 writable)", u.status())
	}
	s.since(begin, "the workers are registered")

	password := s.logsIn()
	resp, err := http.Get(webAt + "/api/v1/info")
	require.NoError(t, err)
	defer resp.Body.Close()
	var info struct {
		Version     string
		ExternalURL string `json:"external_url"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&info))
	require.Equal(t, releaseVersion(t), info.Version)
	require.Equal(t, webAt, info.ExternalURL)
	workers := s.workers()
	require.Len(t, workers, 2)
	s.tags = workers[0].Tags
	require.Subset(t, s.tags, []string{"gpu", "rocm", "compute-runtime=rocm", "gpu-count=1"})
	var wrong *concourse.LoginError
	_, err = concourse.NewAPI(webAt, "admin", "wrong").Workers(t.Context())
	require.ErrorAs(t, err, &wrong)
	require.NotContains(t, s.web().said("concourse-server"), password)
	require.NotContains(t, s.web().said("concourse-server"), s.pg.password)
}

// registers lets the workers come to the web.
func (s *story) registers() {
	s.t.Helper()
	s.app.gossip()
	for _, u := range s.app.units[1:] {
		s.ready(u) // it is refused until the web has its key, and tries again after 5 s
	}
}

func (s *story) logsIn() (password string) {
	s.t.Helper()
	password = s.app.password()
	s.api = concourse.NewAPI(webAt, "admin", password)
	s.fly = newFly(s.t, s.home, webAt, password)
	return password
}

func (s *story) workers() []concourse.WorkerInfo {
	s.t.Helper()
	workers, err := s.api.Workers(s.t.Context())
	require.NoError(s.t, err)
	return workers
}

// nameOf is a worker's name at the web.
func (s *story) nameOf(u *unit) string {
	s.t.Helper()
	id, ok := concourse.ReadWorkerID(u.Root, concourse.WorkFolder(false))
	require.True(s.t, ok, "%s has never been a worker", u.Model.Unit)
	return concourse.WorkerName(u.Model.Unit, id)
}

// has reports whether the web lists the worker as running.
func (s *story) has(name string) bool {
	return slices.ContainsFunc(s.workers(), func(w concourse.WorkerInfo) bool { return w.Name == name && w.State == "running" })
}

func read(u *unit, path string) string {
	u.t.Helper()
	data, err := u.Root.ReadFile(path)
	require.NoError(u.t, err)
	return string(data)
}

func (s *story) variables(t *testing.T) {
	knowsAll(t, "web", read(s.web(), "/var/lib/concourse/config.env"))
	for _, u := range s.app.units[1:] {
		knowsAll(t, "worker", read(u, concourse.EnvFile))
	}
}

func (s *story) checks(t *testing.T) {
	checked := s.web().action("check-status", map[string]any{"verbose": true})
	require.Equal(t, "ok", checked["status"])
	for _, line := range []string{"ok      web: " + webAt, "ok      database: concourse at " + gateway, "ok      concourse-exporter: running and healthy",
		"ok      workers: 2", "ok      worker " + s.nameOf(s.app.units[1]) + ": running gpu,"} {
		require.Contains(t, checked["checks"], line)
	}
	for _, u := range s.app.units[1:] {
		checked := u.action("check-status", map[string]any{"verbose": true})
		require.Equal(t, "ok", checked["status"])
		for _, line := range []string{"ok      worker: healthy and registered at 10.99.0.10:2222", "ok      containerd: ", "ok      rocm-exporter: running and healthy"} {
			require.Contains(t, checked["checks"], line)
		}
	}
	for _, u := range s.app.units {
		require.Empty(t, u.hook("update-status").Plan(), "%s has something left to do", u.Model.Unit)
	}
}

// times is how often a worker said something.
func times(u *unit, text string) int { return strings.Count(u.said("concourse-worker"), text) }
