package exporter

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/page"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// look gets the page as a browser without a script shows it.
func look(t *testing.T, c *collector) string {
	t.Helper()
	return c.get(t, "/").Body.String()
}

func TestPageHasALineForEachOfManyGPUs(t *testing.T) {
	lines := regexp.MustCompile(`<summary class="line">`)
	for n, want := range map[int]int{1: 0, 8: 0, 9: 9, 64: 64} {
		r := hosttest.ManyGPUs(t, n)
		page := look(t, newTestCollector(r, monitor.All(r)))
		require.Len(t, lines.FindAllString(page, -1), want, n)
		require.Equal(t, n-want, strings.Count(page, "<article "), n)
		require.Equal(t, want > 0, strings.Contains(page, `<body class="dense">`))
		require.Equal(t, min(want, 1), strings.Count(page, `<div class="line heads"`), "column heads")
		ids := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			require.False(t, ids[m[1]], m[1])
			ids[m[1]] = true
		}
	}
}

func TestPageShowsEveryGPUOfEveryFixtureHost(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			c := newTestCollector(r, monitor.Of(r, gpu.AMD))
			text := html.UnescapeString(look(t, c))
			gpus := c.Report().GPUs
			require.Equal(t, len(gpus) == 0, strings.Contains(text, "<p>The exporter finds no GPU"))
			for _, g := range gpus {
				require.Contains(t, text, g.Name)
				require.Contains(t, text, g.PCI)
				require.Contains(t, text, string(g.Health.State))
				require.Contains(t, text, g.Health.Reason)
				require.Regexp(t, fmt.Sprintf(`GPU %d\b| to %[1]d\b`, g.Index), text)
			}
		})
	}
}

// Who has ten of these pages open finds the one that wants looking at by its title.
func TestPageShowsItsHostAndTheWorstFirst(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	hosttest.Put(t, r, "/proc/sys/kernel/hostname", "juju-4f2a10-0\n")
	c := newTestCollector(r, monitor.All(r))
	c.Unit, c.Links.Explain = "rocm-worker/0", "juju run rocm-worker/0 explain-error code="
	text := html.UnescapeString(look(t, c))
	require.Contains(t, text, "<title>(1 critical) GPUs of rocm-worker/0 on juju-4f2a10-0</title>")
	require.Contains(t, text, "<h1>GPUs of rocm-worker/0 on juju-4f2a10-0</h1>")
	require.Contains(t, text, `<a href="?show=critical">✕ 1 critical</a>`)
	require.Contains(t, text, "<code>juju run rocm-worker/0 explain-error code=7</code>")
	require.Less(t, strings.Index(text, "<h2>GPU 3<"), strings.Index(text, "<h2>GPU 0<"), "the critical one comes first")
	hosttest.Put(t, r, "/proc/sys/kernel/hostname", "\n")
	require.Contains(t, look(t, c), "<h1>GPUs of rocm-worker/0</h1>", "a host without a name is left out")
	c.Links.Explain = ""
	require.Contains(t, look(t, c), "<code>gpukit explain 7</code>")
}

func TestPageEscapesNames(t *testing.T) {
	const bad = `<img src=x onerror="alert(1)"></script>'&`
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "1\n"})
	c := newTestCollector(r, func() ([]gpu.Slot, []reading.Compute, error) {
		return []gpu.Slot{{Vendor: gpu.AMD, PCI: "0000:03:00.0", GFX: "<b>", Model: bad, Sysfs: dev}}, nil, nil
	})
	report := c.Report()
	report.GPUs[0].Users = []api.User{{Container: bad, Processes: 1, Engines: map[string]float64{bad: 1}}}
	report.GPUs[0].Lease = &pool.Lease{Held: true, Holder: pool.Holder{Container: bad}, Doubt: bad}
	w := httptest.NewRecorder()
	page.Handler(func() api.Report { return report }, page.Links{}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	text := w.Body.String()
	require.NotContains(t, text, "<img")
	require.NotContains(t, text, `, <b>`)
	require.Equal(t, 5, strings.Count(text, "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;"))
	require.Equal(t, 1, strings.Count(text, "</script>"))
	require.NotContains(t, text, "innerHTML", "the script takes elements over, and makes none of text")
}

func TestPageFetchesNothingMore(t *testing.T) {
	r := hosttest.Host(t, "amd")
	w := newTestCollector(r, monitor.All(r)).get(t, "/")
	text, header := w.Body.String(), w.Header()
	link := regexp.MustCompile(`<a href="[^"]*"`)
	require.NotRegexp(t, `(?i)https?:|["'(]//|@import|url\(|<iframe|<object`, link.ReplaceAllString(text, "<a"), "only links")
	for _, m := range regexp.MustCompile(`(?:src|href|action)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[1], "https://github.com/fourdollars/concourse-ci-machine/") {
			require.Contains(t, []string{"data:,", "metrics", "api/v1/gpus", "-/healthy"}, m[1])
		}
	}
	require.NotRegexp(t, `<[^>]* (on[a-z]+|style)=`, text, "the policy would keep it from working")
	policy := map[string]string{}
	for _, p := range strings.Split(header.Get("Content-Security-Policy"), "; ") {
		name, value, _ := strings.Cut(p, " ")
		policy[name] = value
	}
	within := func(tag string) string {
		_, rest, _ := strings.Cut(text, "<"+tag+">")
		content, _, ok := strings.Cut(rest, "</"+tag+">")
		require.True(t, ok, tag)
		sum := sha256.Sum256([]byte(content))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	require.Equal(t, map[string]string{"default-src": "'none'", "script-src": within("script"), "style-src": within("style"),
		"connect-src": "'self'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}, policy)
	require.Equal(t, "no-store", header.Get("Cache-Control"))
}

func TestPageHasValuesWithTheirLimits(t *testing.T) {
	for name, want := range map[string][]string{
		"amd": {`<body class="one">`, "<li>1 GPU</li>", "<strong class=\"healthy\">✓ healthy <small>100 of 100</small></strong>",
			"AMD Radeon RX 7900 XT · 0000:03:00.0", `72 of 108 °C <i>mem</i></span><meter max="108" value="72" low="92" high="103" optimum="0"`,
			"137 of 315 W", "5.8 of 20.0 GiB", `42 %</span><meter max="100" value="42" aria-label="Load"`},
		"apu-gfx1103": {"<li>1 GPU</li>", `47 °C <i>edge</i></span><span class="nometer">`, `9 W</span><span class="nometer">`},
		"mi300x-cpx":  {"9 partitions of 2 GPUs</a>", "gfx942, CPX/NPS1, 8 of 8 partitions", "<h3>partition 1</h3> <span>GPU 1</span>"},
		"mi210x4":     {`<body class="few">`, "4 GPUs</a>"},
		"no-gpu":      {"<li>No GPU</li>"},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			text := html.UnescapeString(look(t, newTestCollector(r, monitor.All(r))))
			for _, w := range want {
				require.Contains(t, text, w)
			}
		})
	}
}
