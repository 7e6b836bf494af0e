package exporter

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
)

// look gets the page as a browser without a script shows it.
func look(t *testing.T, c *Collector) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(c).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, 200, w.Code, w.Body.String())
	return w
}

func TestPageShowsEveryGPUOfEveryFixtureHost(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			c := newTestCollector(r, AMD(r))
			text := html.UnescapeString(look(t, c).Body.String())
			gpus := c.Status()
			require.Equal(t, len(gpus), strings.Count(text, `<th scope="row">`))
			require.Equal(t, len(gpus) == 0, strings.Contains(text, "<p>The exporter finds no AMD GPU"))
			for _, s := range gpus {
				require.Contains(t, text, s.Name)
				require.Contains(t, text, s.PCI)
				require.Contains(t, text, "<strong>"+string(s.Health.State))
				require.Contains(t, text, s.Health.Reason)
			}
		})
	}
}

func TestPageHasValuesWithTheirLimits(t *testing.T) {
	for name, want := range map[string][]string{
		"amd": {"1 GPU: 1 healthy", "<strong>healthy, 100 of 100</strong>", "GPU 0: AMD Radeon RX 7900 XT",
			`72 °C of 108 °C (mem) <meter max="108" value="72">`, "137 W of 315 W", "5.8 GiB of 20.0 GiB", `42 % <meter max="1" value="0.42">`},
		"apu-gfx1103": {"1 GPU: 1 unknown", `<td data-label="Temperature">47 °C (edge)</td>`, `<td data-label="Power">9 W</td>`},
		"mi300x-cpx":  {"0000:0a:00.0, gfx942, partition 1", "with the first partition"},
		"mi210x4":     {"4 GPUs: "},
		"no-gpu":      {`<p id="summary">No GPU</p>`},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			text := html.UnescapeString(look(t, newTestCollector(r, AMD(r))).Body.String())
			for _, w := range want {
				require.Contains(t, text, w)
			}
		})
	}
}

func TestPageExplainsAnError(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	list, err := AMD(r)()
	require.NoError(t, err)
	hosttest.Put(t, r, list[0].Dir+"/ras/umc_err_count", "ue: 1\nce: 0\n")
	text := look(t, newTestCollector(r, AMD(r))).Body.String()
	require.Contains(t, text, "1 uncorrectable error")
	require.Contains(t, text, "<b>ECC Error - Uncorrectable.</b>")
	require.Contains(t, text, "<code>dispatch explain 7</code>")
}

func TestPageEscapesNames(t *testing.T) {
	const bad = `<img src=x onerror="alert(1)"></script>'&`
	r := put(t, map[string]string{"gpu_busy_percent": "1\n"})
	source := func() ([]Device, error) {
		return []Device{{PCI: "0000:03:00.0", Name: bad, GFX: "<b>", Dir: dev, Own: dev}}, nil
	}
	text := look(t, newTestCollector(r, source)).Body.String()
	require.NotContains(t, text, "<img")
	require.NotContains(t, text, `, <b>`)
	require.Contains(t, text, "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;")
	require.Contains(t, html.UnescapeString(text), bad)
	require.Equal(t, 1, strings.Count(text, "</script>"))
	require.NotContains(t, pageJS, "innerHTML", "the script writes text alone")
}

func TestPageAsksNobodyElse(t *testing.T) {
	r := hosttest.Host(t, "amd")
	w := look(t, newTestCollector(r, AMD(r)))
	text := w.Body.String()
	require.NotRegexp(t, `(?i)https?:|["'(]//|@import|url\(|<iframe|<object`, text)
	for _, m := range regexp.MustCompile(`(?:src|href|action)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, []string{"data:,", "metrics", "api/v1/gpus", "-/healthy"}, m[1])
	}
	require.NotRegexp(t, `<[^>]* (on[a-z]+|style)=`, text, "the policy would keep it from working")

	policy := map[string]string{}
	for _, p := range strings.Split(w.Header().Get("Content-Security-Policy"), "; ") {
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
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}

// Who has ten of these pages open finds the one that wants looking at by its title.
func TestPageSaysWhereItIsAndWhatIsWorstFirst(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	hosttest.Put(t, r, "/proc/sys/kernel/hostname", "juju-4f2a10-0\n")
	c := newTestCollector(r, AMD(r))
	c.options.Unit = "rocm-worker/0"
	text := html.UnescapeString(look(t, c).Body.String())
	require.Contains(t, text, "<title>(1 critical) GPUs of rocm-worker/0 on juju-4f2a10-0</title>")
	require.Contains(t, text, "<h1>GPUs of rocm-worker/0 on juju-4f2a10-0</h1>")
	require.Contains(t, text, "<code>juju run rocm-worker/0 explain-error code=7</code>")
	require.Contains(t, text, "rocm-exporter v0.0.0-test")
	require.Less(t, strings.Index(text, "GPU 3: "), strings.Index(text, "GPU 0: "), "the critical one comes first")

	w := httptest.NewRecorder()
	Handler(c).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/gpus", nil))
	var got Report
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, []any{"rocm-worker/0", "juju-4f2a10-0", "v0.0.0-test", hosttest.Now.UTC()}, []any{got.Unit, got.Host, got.Version, got.Time})
	require.Len(t, got.GPUs, 4)
}
