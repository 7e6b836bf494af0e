package exporter

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestPaths(t *testing.T) {
	r := hosttest.Host(t, "amd")
	h := newTestCollector(r, monitor.All(r)).handler()
	for _, c := range []struct {
		method, path string
		code         int
		contentType  string
		has          string
	}{
		{"GET", "/metrics", 200, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "rocm_gpu_temperature{"},
		{"GET", "/api/v1/gpus", 200, "application/json", `"state": "`},
		{"GET", "/-/healthy", 200, "text/plain; charset=utf-8", "healthy"},
		{"GET", "/", 200, "text/html; charset=utf-8", `href="metrics"`},
		{"GET", "/metrics/", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/etc/passwd", 404, "text/plain; charset=utf-8", ""},
		{"POST", "/metrics", 405, "text/plain; charset=utf-8", ""},
		{"DELETE", "/-/healthy", 405, "text/plain; charset=utf-8", ""},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
			require.Equal(t, c.code, w.Code)
			require.Equal(t, c.contentType, w.Header().Get("Content-Type"))
			require.Contains(t, w.Body.String(), c.has)
		})
	}
}

func TestHealthAnswersWhileAGPUHangs(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "1\n"})
	reached, end := exportertest.FIFO(t, r, dev+"/gpu_busy_percent")
	h := newTestCollector(r, one).handler()
	scraped := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		scraped <- w.Code
	}()
	<-reached
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/-/healthy", nil))
	require.Equal(t, http.StatusOK, w.Code)
	end("1\n")
	require.Equal(t, http.StatusOK, <-scraped)
}

func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"help":           {[]string{"--help"}, 0, "--web.listen-address=ADDRESS", ""},
		"version":        {[]string{"--version"}, 0, "rocm-exporter v1.2.3\n", ""},
		"unknown flag":   {[]string{"--path.rot=/"}, 2, "", "unknown flag: --path.rot; did you mean --path.root?"},
		"stray argument": {[]string{"--path.root=/", "serve"}, 2, "", `cannot run rocm-exporter with "serve": want rocm-exporter [flags]`},
		"hasty watchdog": {[]string{"--web.watchdog=1s"}, 2, "", "at least 2s, or 0s"},
		"missing value":  {[]string{"--path.root"}, 2, "", "needs an argument"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, c.code, Run("v1.2.3", c.args, &out, &errs))
			require.Contains(t, out.String(), c.stdout)
			require.Contains(t, errs.String(), c.stderr)
			require.Equal(t, c.stdout == "", out.Len() == 0)
			require.Equal(t, c.stderr == "", errs.Len() == 0)
		})
	}
}

func TestHelpShowsEveryFlagWithItsDefault(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, 0, Run("v1.2.3", []string{"-h"}, &out, io.Discard))
	hosttest.Golden(t, "testdata/help.txt", out.String())
}
