//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/tests/fusefs"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// failingPipeline has a build that hangs with its GPU until its timeout, one that gets too
// little CPU beside its neighbours, one that fails by itself, and one without its command.
const failingPipeline = `
image: &image {type: mock, source: {mirror_self: true}, version: {version: mock}}
jobs:
- name: hangs
  plan:
  - task: victim
    tags: [gpu]
    timeout: 1m
    config: {platform: linux, image_resource: *image, run: {path: sh, args: [-c, "echo it waits for the GPU; sleep 1000"]}}
- name: starves
  plan:
  - in_parallel:
    - task: victim
      tags: [plain]
      timeout: 1m
      config: {platform: linux, image_resource: *image, run: {path: sh, args: [-c, "while :; do :; done"]}}
    - across: [{var: copy, values: [1, 2, 3, 4], max_in_flight: all}]
      task: neighbour
      tags: [plain]
      config: {platform: linux, image_resource: *image, run: {path: sh, args: [-c, "timeout 70 sh -c 'while :; do :; done'; exit 0"]}}
- name: fails
  plan:
  - task: victim
    tags: [plain]
    config: {platform: linux, image_resource: *image, run: {path: sh, args: [-c, "sleep 3; echo FAILED: two is not three; exit 3"]}}
- name: absent
  plan:
  - task: victim
    tags: [plain]
    config: {platform: linux, image_resource: *image, run: {path: /no/such/command}}
`

// TestWhyBuildsOfARealConcourseFail checks the answers of the recorder on a worker with GPUs
// and on one without, as the action, the page, the JSON and the metric show them.
func TestWhyBuildsOfARealConcourseFail(t *testing.T) {
	tgz := releaseTarball(t)
	suite.Need(t, fusefs.Missing())
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir(), app: &app{t: t}}
	options := map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip", "gpu-device-ids": "0",
		"enable-metrics": true}
	var gpu *fusefs.Mirror
	s.app.add(newUnit(t, 0, "no-gpu", tgz, false), options)
	s.app.add(newUnit(t, 1, "mi210x4", tgz, false, func(u *unit) { gpu = hanging(u) }), options)
	s.app.add(newUnit(t, 2, "no-gpu", tgz, true), map[string]any{"mode": "auto", "compute-runtime": "none", "tag": "plain",
		"enable-metrics": true})
	t.Cleanup(func() { gpu.Hang(false) }) // or the machine's processes can't end
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
	}
	s.isUp()
	with, without := s.app.units[1], s.app.units[2]
	s.fly.must("set-pipeline", "-n", "-p", "why", "-c", s.fly.write("why.yml", failingPipeline))
	s.fly.must("unpause-pipeline", "-p", "why")

	hangs := s.triggers("hangs")
	until(t, func() bool {
		said, err := os.ReadFile(hangs.log)
		require.NoError(t, err)
		return strings.Contains(string(said), "\nit waits for the GPU")
	}, "the task does not run")
	gpu.Hang(true)
	is(t, s, with, hangs, "hangs", "gpu-hang", verdict.GPU)
	gpu.Hang(false)
	is(t, s, without, s.triggers("fails"), "fails", "exit-status", verdict.Task)
	is(t, s, without, s.triggers("absent"), "absent", "not-started", verdict.Task)
	// What more the machine of the tests does is not a container.
	is(t, s, without, s.triggers("starves"), "starves", "cpu-starved", verdict.Neighbour, verdict.Machine)
}

// triggers starts a job's build.
func (s *story) triggers(job string) *oneBuild {
	s.t.Helper()
	return s.follows(job, "trigger-job", "-j", "why/"+job, "-w")
}

// container returns the handle of the victim's container of a job, "" while it is missing.
func (s *story) container(job string) string {
	s.t.Helper()
	var all []struct {
		ID    string `json:"id"`
		Job   string `json:"job_name"`
		Step  string `json:"step_name"`
		Type  string `json:"type"`
		State string `json:"state"`
	}
	require.NoError(s.t, json.Unmarshal([]byte(s.fly.must("containers", "--json")), &all))
	for _, c := range all {
		if c.Job == job && c.Step == "victim" && c.Type == "task" {
			return c.ID
		}
	}
	return ""
}

// is checks what a worker shows of a build's task that failed.
func is(t *testing.T, s *story, u *unit, b *oneBuild, job, code string, kinds ...verdict.Kind) {
	t.Helper()
	until(t, func() bool { return b.ended() }, job+" does not end")
	require.Error(t, b.err)
	handle := s.container(job)
	t.Logf("fly watch of %s:\n%s", job, b.out)
	require.NotEmpty(t, handle, s.fly.must("containers"))
	until(t, func() bool { return strings.Contains(u.said("concourse-task-recorder"), "container "+handle+": ") },
		func() string { return u.said("concourse-task-recorder") })

	answer, _ := u.action("why", map[string]any{"task": handle})["why"].(string)
	t.Logf("why of %s:\n%s", job, answer)
	require.Contains(t, answer, "("+code+")")

	at := "http://" + u.Model.Address + ":9401"
	var entry verdict.Entry
	until(t, func() bool {
		var all []verdict.Entry
		require.NoError(t, json.Unmarshal([]byte(get(t, at+"/api/v1/verdicts")), &all))
		for _, e := range all {
			if e.Handle == handle {
				entry = e
			}
		}
		return entry.Handle != ""
	}, "the verdict is not served")
	require.Contains(t, kinds, entry.Kind)
	require.Equal(t, code, entry.Reason)
	page := get(t, at+"/tasks")
	require.Contains(t, page, handle)
	require.Contains(t, page, fmt.Sprintf("Verdict: %s", entry.Kind))
	if len(entry.GPUs) > 0 { // it is counted when no late sign of the GPU can change the verdict
		return
	}
	require.Regexp(t, fmt.Sprintf(`concourse_worker_tasks_total\{[^}]*verdict="%s"\} [1-9]`, entry.Kind), get(t, at+"/metrics"))
}
