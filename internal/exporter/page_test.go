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

	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/reading"
	"concourse-ci-machine/internal/pool"
	"concourse-ci-machine/internal/testutil/exportertest"
	"concourse-ci-machine/internal/testutil/hosttest"
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
		require.Equal(t, want > 0, strings.Contains(page, `<main id="gpus" class="dense">`))
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
			require.Equal(t, len(gpus) == 0, strings.Contains(text, "<p>The exporter finds no AMD GPU"))
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
	c.Unit = "rocm-worker/0"
	text := html.UnescapeString(look(t, c))
	require.Contains(t, text, "<title>(1 critical) GPUs of rocm-worker/0 on juju-4f2a10-0</title>")
	require.Contains(t, text, "<h1>GPUs of rocm-worker/0 on juju-4f2a10-0</h1>")
	require.Contains(t, text, `<p id="summary">4 GPUs: 1 critical, 3 `)
	require.Contains(t, text, "<code>juju run rocm-worker/0 explain-error code=7</code>")
	require.Less(t, strings.Index(text, "GPU 3: "), strings.Index(text, "GPU 0: "), "the critical one comes first")
	c.Unit = ""
	require.Contains(t, look(t, c), "<code>dispatch explain 7</code>")
}

func TestPageEscapesNames(t *testing.T) {
	const bad = `<img src=x onerror="alert(1)"></script>'&`
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "1\n"})
	c := newTestCollector(r, func() ([]reading.Device, error) {
		return []reading.Device{{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: "0000:03:00.0", GFX: "<b>"}, Name: bad, Dir: dev, Own: dev}}, nil
	})
	report := c.Report()
	report.GPUs[0].Users = []api.User{{Container: bad, Processes: 1, Engines: map[string]float64{bad: 1}}}
	report.GPUs[0].Lease = &pool.Lease{Held: true, Container: bad, Doubt: bad}
	w := httptest.NewRecorder()
	Page(func() api.Report { return report }).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	text := w.Body.String()
	require.NotContains(t, text, "<img")
	require.NotContains(t, text, `, <b>`)
	require.Equal(t, 4, strings.Count(text, "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;"))
	require.Equal(t, 1, strings.Count(text, "</script>"))
	require.NotContains(t, pageJS, "innerHTML", "the script takes elements over, and makes none of text")
}

func TestPageFetchesNothingElse(t *testing.T) {
	r := hosttest.Host(t, "amd")
	w := newTestCollector(r, monitor.All(r)).get(t, "/")
	text, header := w.Body.String(), w.Header()
	require.NotRegexp(t, `(?i)https?:|["'(]//|@import|url\(|<iframe|<object`, text)
	for _, m := range regexp.MustCompile(`(?:src|href|action)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, []string{"data:,", "metrics", "api/v1/gpus", "-/healthy"}, m[1])
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

func TestBarDrawsItsPast(t *testing.T) {
	words := func(v float64) string { return fmt.Sprintf("%.0f W", v) }
	v := func(n float64) *float64 { return &n }
	b := bar{Max: 100}
	b.draw(past{[]*float64{v(0), v(50), nil, v(100)}, 10}, words)
	require.Equal(t, bar{Max: 100, Past: "M86 23.0h0L87 12.0M89 1.0h0", Range: "0 W to 100 W in the last minute"}, b)
	b = bar{}
	b.draw(past{make([]*float64, 90), 10}, words)
	require.Equal(t, bar{}, b, "nothing was known")
	many := make([]*float64, 90)
	for i := range many {
		many[i] = v(0)
	}
	b.draw(past{many, 10}, words)
	require.Equal(t, "0 W to 0 W in the last 15 minutes", b.Range)
	require.True(t, strings.HasPrefix(b.Past, "M0 23.0h0L1 23.0"))
}

func TestPageHasValuesWithTheirLimits(t *testing.T) {
	for name, want := range map[string][]string{
		"amd": {"1 GPU: 1 healthy", "<strong>✓ healthy, 100 of 100</strong>", "GPU 0: AMD Radeon RX 7900 XT",
			`72 °C of 108 °C (mem)</span> <meter max="108" value="72"`, "137 W of 315 W", "5.8 GiB of 20.0 GiB", `42 %</span> <meter max="1" value="0.42"`},
		"apu-gfx1103": {"1 GPU: 1 healthy", "47 °C (edge)</span></div>", "9 W</span></div>"},
		"mi300x-cpx":  {"9 partitions of 2 GPUs: ", "0000:0a:00.0, gfx942, CPX/NPS1, 8 of 8 partitions", "<h3>partition 1</h3> <span>GPU 1</span>"},
		"mi210x4":     {"4 GPUs: "},
		"no-gpu":      {`<p id="summary">No GPU</p>`},
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
