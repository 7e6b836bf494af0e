package fleet

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const verdictsPath = "/api/v1/verdicts"

// workersAnswer is a network of workers without sockets.
type workersAnswer func(r *http.Request) (status int, body string)

func (answer workersAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := answer(r)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: r}, nil
}

// flakesBed is a fleet of workers with the page of flakes, one build, and no Concourse.
func flakesBed(t *testing.T, answer workersAnswer, names ...string) *bed {
	t.Helper()
	b := &bed{Fleet: New(), time: hosttest.Now, path: t.TempDir() + "/fleet.json", mux: http.NewServeMux()}
	b.Flags(pflag.NewFlagSet("", pflag.ContinueOnError))
	b.Fleet.path, b.now = b.path, func() time.Time { return b.time }
	b.asker.http.Transport = answer
	file := fleetfile.File{}
	for _, name := range names {
		file.Workers = append(file.Workers, fleetfile.Worker{Unit: "gpu/0", Name: name, URL: "http://" + name, Count: 1})
	}
	b.write(t, file)
	b.site.Builds = map[string]jobexporter.Build{uuid: {ID: 5, Step: "unit", Worker: names[0]}}
	b.prepare(jobexporter.Surroundings{Site: func() Site { return b.site }, Every: 30 * time.Second, Logs: log.New(&b.logs, "", 0),
		Get:  func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no Concourse") },
		Show: func([]prometheus.Metric) {}}, b.mux)
	return b
}

const (
	uuid    = "00000000-0000-0000-0000-000000000001"
	verdict = `[{"handle":"` + uuid + `","ended":"2026-01-01T00:00:00Z","exit":1,"kind":"machine","reason":"power-loss","text":"a reboot","gpus":[]}]`
)

// rounds runs a round of both pages, and returns the answer to a task of the build.
func (b *bed) rounds(t *testing.T) string {
	t.Helper()
	b.Round(t.Context())
	b.flakes.Round(t.Context())
	b.time = b.time.Add(30 * time.Second)
	return b.get(t, "/api/v1/flakes/build-of/"+uuid).Body.String()
}

func TestBrokenConnectionIsNotAWrongAnswer(t *testing.T) {
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, `{"gpus":[`)
	}))
	t.Cleanup(worker.Close)
	got := newAsker().gpus(t.Context(), []fleetfile.Worker{{URL: worker.URL, Count: 1}}, nil)
	require.EqualError(t, got[0].err, "its connection broke")
}

// A worker that reboots answers 503 at first. The task that comments a pull request waits for
// less than 3 minutes.
func TestVerdictsAreReadSoonAfterARebootOfTheWorker(t *testing.T) {
	status := http.StatusServiceUnavailable
	b := flakesBed(t, func(*http.Request) (int, string) { return status, verdict }, "gpu-0")
	require.Contains(t, b.rounds(t), `"infrastructure":false`)
	status = http.StatusOK
	require.Contains(t, b.rounds(t), "failed by infrastructure, run again (machine: power-loss)")
}

// One worker answers only after another has been asked too.
func TestWorkersAreAskedForVerdictsInParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	b := flakesBed(t, func(r *http.Request) (int, string) {
		if r.URL.Path != verdictsPath {
			return http.StatusNotFound, ""
		}
		both.Done()
		met := make(chan struct{})
		go func() { both.Wait(); close(met) }()
		select {
		case <-met:
			return http.StatusOK, verdict
		case <-r.Context().Done():
			return http.StatusGatewayTimeout, ""
		}
	}, "gpu-0", "gpu-1")
	require.Contains(t, b.rounds(t), "failed by infrastructure")
}
