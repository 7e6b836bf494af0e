//go:build e2e

package prometheus

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
)

// capture is what a web of Concourse 8.2.5 served with a worker, builds that ended and
// one that waits; tests/jobexporter holds its names and labels against a real one.
const capture = "testdata/concourse-8.2.5.prom"

// grows are the samples of the capture that only ever go up.
var grows = regexp.MustCompile(`(?m)^(\w+(?:_total|_bucket|_count|_sum|_finished|_streamed)(?:{.*})?) ([0-9.e+]+)$`)

// web serves the capture with counters that grow by 1 each second, as panels show rates.
func web(t *testing.T) string {
	t.Helper()
	text, began := readFile(t, capture), time.Now()
	require.Greater(t, len(grows.FindAllString(text, -1)), 20)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, grows.ReplaceAllStringFunc(text, func(line string) string {
			m := grows.FindStringSubmatch(line)
			n, _ := strconv.ParseFloat(m[2], 64) // the pattern lets numbers alone through
			return fmt.Sprintf("%s %g", m[1], n+time.Since(began).Seconds())
		}))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// jobs serves what concourse-exporter has of a site, whose task in the container 4f1c has
// the GPUs of everything, and a job that fails for the third time.
func jobs(t *testing.T) string {
	t.Helper()
	site := atctest.New(t)
	file := filepath.Join(t.TempDir(), "credentials.json")
	data, err := login.Credentials{URL: site.URL, Username: "admin", Password: "s3 cr&t"}.Marshal()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	p := jobexporter.NewPoller(jobexporter.Options{CredentialsFile: file, Timeout: time.Minute, Keep: time.Hour, Version: "e2e", Logs: log.New(io.Discard, "", 0), Now: time.Now})
	for end := 1; end <= 3; end++ {
		site.Set(func(s *atctest.Server) {
			s.Site()
			s.Answers[atctest.ContainersOfMain] = `[{"id":"4f1c","worker_name":"everything-0","type":"task","step_name":"train","build_id":12,"pipeline_name":"plain","job_name":"succeeded","build_name":"4"}]`
			s.Answers[atctest.Jobs] = fmt.Sprintf(`[{"name":"failed","team_name":"main","pipeline_name":"plain","finished_build":{"status":"failed","start_time":1,"end_time":%d}}]`, end)
		})
		require.NoError(t, p.Poll(t.Context()))
	}
	s := httptest.NewServer(jobexporter.Handler(p, false))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestDashboardOfConcourseOnARealPrometheus(t *testing.T) {
	need(t, "prometheus")
	panels, variables := queries(t, concourseBoard)
	s := start(t, []unit{{"concourse", "ci", web(t)}, {"concourse-exporter", "ci", jobs(t)},
		{"rocm-exporter", "everything", exporter(t, buildExporter(t), string(everything(t)))}})
	s.until(func() bool { return len(s.query("up == 1")) == 3 }, "not all are scraped: %v", s.query("up"))
	s.answersAll(t, panels)
	t.Run("every variable has values to choose from", func(t *testing.T) { s.offers(variables) })
	t.Run("what the worker measures has the build's name", func(t *testing.T) {
		held := s.query(`concourse:container_gpu_held_seconds{gpu="0"}`)
		require.Len(t, held, 1)
		for label, want := range map[string]string{"team": "main", "pipeline": "plain", "job_name": "succeeded", "build": "4", "step": "train", "juju_unit": "everything/0"} {
			require.Equal(t, want, held[0].Metric[label], label)
		}
		seconds, err := strconv.ParseFloat(held[0].Value[1].(string), 64)
		require.NoError(t, err)
		require.Greater(t, seconds, 3600.0, "it was leased an hour ago")
	})
	t.Run("a job that fails for the third time fires", func(t *testing.T) {
		s.until(func() bool {
			return len(s.query(`ALERTS{alertname="ConcourseJobFailing",exported_job="failed",alertstate="firing"}`)) == 1
		}, "no alert")
	})
}
