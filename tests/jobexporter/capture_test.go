//go:build e2e

package jobexporter

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

const gpuTasks = `{"jobs":[
{"name":"first","plan":[{"task":"t","tags":["gpu"],"config":{"platform":"linux","run":{"path":"sleep","args":["60"]}}}]},
{"name":"second","plan":[{"task":"t","tags":["gpu"],"config":{"platform":"linux","run":{"path":"true"}}}]}]}`

var (
	sampleLine = regexp.MustCompile(`(?m)^(concourse_\w+)(?:{(.*)})? `)
	labelName  = regexp.MustCompile(`(\w+)="`)
)

// shapes are the names of series with their labels.
func shapes(text string) (out []string) {
	for _, m := range sampleLine.FindAllStringSubmatch(text, -1) {
		shape := m[1]
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			shape += " " + l[1]
		}
		out = append(out, shape)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tests/prometheus holds the dashboard against a capture of Concourse's metrics, as there
// is not a Concourse. Here there is: each series of the capture is one that it serves. And
// the containers of its builds are reported with the handles that it gave them.
func TestMetricsOfARealConcourseAreFromTheCapture(t *testing.T) {
	web := suite.StartWeb(t)
	web.StartWorker(t)
	admin := loggedIn(t, web, "admin", "s3 cr&t")
	admin.ask(t, "PUT", "/api/v1/teams/main/pipelines/rocm/config", gpuTasks)
	admin.ask(t, "PUT", "/api/v1/teams/main/pipelines/rocm/unpause", "")
	e := newExporter(t, web.URL, "admin", "s3 cr&t", time.Now)
	begin := func(job string) string {
		var build struct{ ID json.Number }
		require.NoError(t, json.Unmarshal(admin.ask(t, "POST", "/api/v1/teams/main/pipelines/rocm/jobs/"+job+"/builds", ""), &build))
		return build.ID.String()
	}
	one := begin("first")
	require.Eventually(t, func() bool {
		return e.Poll(t.Context()) == nil && strings.Contains(e.text(), `job_name="first",pipeline="rocm",step="t",team="main",worker="gpu-0"`)
	}, time.Minute, time.Second/2)
	var real []struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal(admin.ask(t, "GET", "/api/v1/teams/main/containers?type=task", ""), &real))
	require.Len(t, real, 1)
	require.Contains(t, e.text(), `concourse_container_info{build="1",container="`+real[0].ID+`",`)

	two := begin("second") // waits, as the worker has no room
	capture, err := os.ReadFile("../prometheus/testdata/concourse-8.2.5.prom")
	require.NoError(t, err)
	missing := func() (out []string) {
		resp, err := http.Get(web.Metrics)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		served := shapes(string(text))
		for _, s := range shapes(string(capture)) {
			if !slices.Contains(served, s) {
				out = append(out, s)
			}
		}
		return out
	}
	const waiting = "concourse_steps_waiting platform teamId teamName type workerTags"
	require.Eventually(t, func() bool { return !slices.Contains(missing(), waiting) }, time.Minute, time.Second)
	for _, id := range []string{two, one} {
		admin.ask(t, "PUT", "/api/v1/builds/"+id+"/abort", "")
	}
	require.Eventually(t, func() bool { return len(missing()) == 0 }, time.Minute, time.Second)
}
