package exporter

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
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
		line           string
		code           int
		stdout, stderr string
	}{
		"help":              {"--help", 0, "\n  serve ", ""},
		"help of a command": {"serve --help", 0, "--web.listen-address=ADDRESS", ""},
		"version":           {"--version", 0, "rocm-exporter v1.2.3\n", ""},
		"no command":        {"", 2, "", "want one of record-tasks, serve, write-gpus"},
		"flags alone":       {"--path.root=/ --vendor=intel", 2, "", "cannot run rocm-exporter serve"},
		"unknown command":   {"server", 2, "", "no such command; did you mean serve?"},
		"unknown flag":      {"serve --path.rot=/", 2, "", "unknown flag: --path.rot; did you mean --path.root?"},
		"stray argument":    {"serve --path.root=/ now", 2, "", `cannot run rocm-exporter serve with "now": want rocm-exporter serve [flags]`},
		"hasty watchdog":    {"serve --web.watchdog=1s", 2, "", "at least 2s, or 0s"},
		"missing value":     {"serve --path.root", 2, "", "needs an argument"},
		"unknown vendor":    {"serve --vendor=intel", 2, "", "want amd, nvidia, all or none"},
		"hasty scan":        {"serve --usage.interval=4s", 2, "", "invalid value 4s for flag --usage.interval: at least 5s"},
		"hasty RAS":         {"serve --ras.interval=4s", 2, "", "invalid value 4s for flag --ras.interval: at least 5s"},
		"no container":      {"serve --usage.containers=0", 2, "", "invalid value 0 for flag --usage.containers: 1 to 1000"},
		"many containers":   {"write-gpus /f --usage.containers=1001", 2, "", "invalid value 1001 for flag --usage.containers: 1 to 1000"},
		"no link":           {"serve --link.fleet=x", 2, "", "--link.fleet"},
		"no file of users":  {"write-gpus", 2, "", "cannot run rocm-exporter write-gpus: want rocm-exporter write-gpus FILE [flags] [-- COMMAND]"},
		"two files":         {"write-gpus /f /g", 2, "", `with "/f /g"`},
		"a server's flag":   {"write-gpus /f --web.listen-address=:1", 2, "", "unknown flag: --web.listen-address"},
		"no folder":         {"record-tasks", 2, "", "want rocm-exporter record-tasks FOLDER [flags]"},
		"no size":           {"record-tasks /d --size=0", 2, "", "flag --size needs at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, c.code, Run("v1.2.3", strings.Fields(c.line), &out, &errs))
			require.Contains(t, out.String(), c.stdout)
			require.Contains(t, errs.String(), c.stderr)
			require.Equal(t, c.stdout == "", out.Len() == 0)
			require.Equal(t, c.stderr == "", errs.Len() == 0)
		})
	}
}

func TestDefaultsOfServe(t *testing.T) {
	c, o := newServe("")
	require.NoError(t, c.ParseFlags(nil))
	require.NoError(t, o.check())
	require.Equal(t, gpu.Vendors(), o.vendors)
	require.Equal(t, monitor.Options{PCIeBandwidth: true, RASInterval: monitor.DefaultRAS, Usage: true,
		UsageInterval: 15 * time.Second, UsageContainers: 64}, o.collect)
}

func TestVendorsAreChosen(t *testing.T) {
	for name, want := range map[string][]gpu.Vendor{"amd": {gpu.AMD}, "nvidia": {gpu.NVIDIA}, "all": gpu.Vendors(), "none": nil} {
		c, o := newServe("")
		require.NoError(t, c.ParseFlags([]string{"--vendor=" + name}))
		require.Equal(t, want, o.vendors)
	}
}

func TestHelpShowsEveryFlagWithItsDefault(t *testing.T) {
	for _, command := range []string{"", "serve", "write-gpus", "record-tasks"} {
		var out bytes.Buffer
		require.Equal(t, 0, Run("v1.2.3", append(strings.Fields(command), "-h"), &out, io.Discard))
		hosttest.Golden(t, "testdata/"+cmp.Or(command, "help")+".txt", out.String())
	}
}
