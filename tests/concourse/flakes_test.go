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
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
)

// flakyPipeline has a job with a test that fails in every second run, on each value of an
// across step, and a job that fails by itself.
const flakyPipeline = `
resources:
- {name: image, type: mock, tags: [gpu], check_every: never, source: {mirror_self: true}}
jobs:
- name: flaky
  plan:
  - {get: image, tags: [gpu]}
  - across: [{var: arch, values: [one, two]}]
    task: unit
    tags: [gpu]
    image: image
    config:
      platform: linux
      run:
        path: sh
        args:
        - -ec
        - |
          trap 'sleep 1' EXIT
          n=$(cat /srv/out_rw/((.:arch)) 2>/dev/null || echo 0)
          echo $((n + 1)) >/srv/out_rw/((.:arch))
          failure=$([ $((n %% 2)) = 1 ] || echo '<failure>a secret</failure>')
          echo "<testsuite><testcase classname='t' name='steady'/><testcase classname='t' name='slow'>$failure</testcase></testsuite>" >junit.xml
          /opt/concourse-ci-machine/tools/gpu-baseline junit junit.xml
          [ -z "$failure" ]
- name: wrong
  plan:
  - {get: image, tags: [gpu]}
  - {task: unit, tags: [gpu], image: image, config: {platform: linux, run: {path: "false"}}}
`

// TestFlakesOfARealConcourse runs a flaky test on a worker, and reads the page of flakes.
func TestFlakesOfARealConcourse(t *testing.T) {
	tgz := releaseTarball(t)
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}
	s.app = newApp(t, tgz, map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip", "enable-metrics": true,
		"gpu-sharing": "exclusive"}, "no-gpu", "amd")
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777)) // tasks are no user of the unit
	}
	s.isUp()
	s.fly.must("set-pipeline", "-n", "-p", "flaky", "-c", s.fly.write("flaky.yml", strings.ReplaceAll(flakyPipeline, "%%", "%")))
	s.fly.must("unpause-pipeline", "-p", "flaky")
	for n := range 4 {
		out, _ := s.fly.run("trigger-job", "-j", "flaky/flaky", "-w")
		require.Contains(t, out, "\njunit-results/1 ", "build %d", n+1)
	}
	for range 2 {
		s.fly.run("trigger-job", "-j", "flaky/wrong", "-w") // which fails
	}
	var r flakereport.Report
	until(t, func() bool {
		r = flakereport.Report{}
		return json.Unmarshal([]byte(get(t, "http://10.99.0.10:9358/api/v1/flakes")), &r) == nil && r.Runs == 10 && r.Unread == 0
	}, func() string { return fmt.Sprintf("%+v", r) })
	require.Empty(t, r.Problem)
	require.Empty(t, r.Lost)
	require.Len(t, r.Flakes, 2, "%+v", r.Flakes)
	for i, arch := range []string{"one", "two"} {
		f := r.Flakes[i]
		require.Equal(t, []any{"main", "flaky", "flaky", "unit (" + arch + ")", "t.slow"}, []any{f.Team, f.Pipeline, f.Job, f.Step, f.Test})
		require.Equal(t, "this test failed without a change in 2 of 4 runs", f.Sentence)
	}
	page := get(t, "http://10.99.0.10:9358/flakes?q=t.slow")
	require.Contains(t, page, "in 2 of 4 runs")
	require.NotContains(t, page+get(t, "http://10.99.0.10:9358/api/v1/flakes"), "secret")
	said := s.web().action("flakes", nil)["flakes"]
	require.Contains(t, said, "2 flakes in 10 runs, 0 runs by infrastructure")
	require.Contains(t, said, "t.slow")
	require.Contains(t, get(t, "http://10.99.0.10:9358/"), `<a href="flakes">`)
}
