//go:build e2e

package prometheus

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// patience bounds each wait.
const patience = time.Minute

// server is a running Prometheus.
type server struct {
	t       *testing.T
	address string
}

// begin starts a program that ends with the test, and returns its stderr.
func begin(t *testing.T, argv ...string) *bufio.Reader {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	errs, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		cancel()
		c.Wait() // it was killed
	})
	return bufio.NewReader(errs)
}

// buildExporter makes the program once for a test.
func buildExporter(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, suite.Build(dir, "./src/rocm-exporter"))
	return filepath.Join(dir, "rocm-exporter")
}

// exporter serves a host's tree and returns its address.
func exporter(t *testing.T, bin, root string, flags ...string) string {
	t.Helper()
	errs := begin(t, append([]string{bin, "serve", "--web.listen-address=127.0.0.1:0", "--ras.interval=5s", "--leases.report=" + leases,
		"--service.report=" + service, "--disk.folder=/sys", "--path.root=" + root}, flags...)...)
	line, err := errs.ReadString('\n')
	require.NoError(t, err, line)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "rocm-exporter: listening on ")
	require.True(t, ok, line)
	return address
}

// unit is something to scrape.
type unit struct{ job, app, address string }

// start runs a Prometheus with the charm's rules that scrapes each unit every
// second, with the labels that a relation gives to its target.
func start(t *testing.T, units []unit) *server {
	t.Helper()
	var jobs strings.Builder
	for i, u := range units {
		fmt.Fprintf(&jobs, "- job_name: %s-%d\n  static_configs:\n  - targets: [%q]\n    labels: {juju_model: ci, juju_model_uuid: f47ac10b, juju_application: %s, juju_unit: %[4]s/0}\n", u.job, i, u.address, u.app)
	}
	return launch(t, []string{rulesFile, webRules, useRules}, jobs.String())
}

// launch runs a Prometheus with rules, evaluated every second, and jobs.
func launch(t *testing.T, rules []string, jobs string) *server {
	t.Helper()
	need(t, "prometheus")
	dir := t.TempDir()
	for _, file := range rules {
		everySecond := regexp.MustCompile(`(?m)^    interval: \d+s$`).ReplaceAllString(readFile(t, file), "    interval: 1s")
		require.Contains(t, everySecond, "interval: 1s\n")
		writeFile(t, filepath.Join(dir, filepath.Base(file)), everySecond)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n", filepath.Join(dir, "*.yaml")) + jobs
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	errs := begin(t, "prometheus", "--config.file="+writeFile(t, filepath.Join(dir, "prometheus.yml"), config),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	for {
		line, err := errs.ReadString('\n')
		require.NoError(t, err, "Prometheus ended: %s", line)
		if strings.Contains(line, "Server is ready to receive web requests") {
			break
		}
	}
	go errs.WriteTo(discard{}) // so that it never waits for a reader
	return &server{t, address}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// get asks the API; into gets the field data.
func (s *server) get(path string, query url.Values, into any) {
	s.t.Helper()
	resp, err := http.Get("http://" + s.address + path + "?" + query.Encode())
	require.NoError(s.t, err)
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&answer))
	require.Equal(s.t, "success", answer.Status, "%s: %s", query, answer.Error)
}

// sample is one series of an answer.
type sample struct {
	Metric map[string]string
	Value  [2]any // time, text
}

func (s *server) query(expr string) []sample {
	s.t.Helper()
	var data struct{ Result []sample }
	s.get("/api/v1/query", url.Values{"query": {expr}}, &data)
	return data.Result
}

// until asks again until done, which the data of the next scrapes may make true.
func (s *server) until(done func() bool, what string, args ...any) {
	s.t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); !done(); <-again.C {
		require.True(s.t, time.Now().Before(end), append([]any{what}, args...)...)
	}
}
