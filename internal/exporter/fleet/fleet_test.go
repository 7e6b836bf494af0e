package fleet

import (
	"context"
	"fmt"
	"html"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakes"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const handle = "eb2a4fe8-e932-49c4-b519-4f1da1901416"

// gpusJSON returns the answer of a worker with one leased GPU, one that is quarantined, and
// one that is free.
func gpusJSON(watts float64) string {
	return fmt.Sprintf(`{"gpus":[
	{"index":0,"vendor":"amd","name":"AMD Instinct MI210","gfx":"gfx90a","pci_bus_id":"0000:03:00.0","partitions":1,"health":{"state":"healthy","reason":"nothing wrong"},"power_watts":%g,"activity_ratio":0.8,
	 "lease":{"held":true,"container":"%s","since":"2026-01-01T00:00:00Z"},"service":null},
	{"index":1,"gfx":"gfx90a","pci_bus_id":"0000:04:00.0","partitions":1,"health":{"state":"critical","reason":"hangs"},"lease":{"held":false},
	 "service":{"state":"quarantined","since":"2026-01-01T00:00:00Z","why":"hangs or is in reset","by":"health"}},
	{"index":2,"gfx":"gfx90a","pci_bus_id":"0000:05:00.0","partitions":1,"health":{"state":"healthy"},"activity_ratio":0,"lease":{"held":false},"service":null}]}`, watts, handle)
}

// worker serves an answer that the test may change.
func worker(t *testing.T, text *string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if *text == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, *text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestFleetShowsWhoHasWhichGPU(t *testing.T) {
	b := newBed(t)
	require.Equal(t, "no worker has been asked yet", b.report(t).Problem)
	text, metrics := gpusJSON(200), waitingMetric+`{platform="linux",teamName="main",type="task",workerTags="gfx=gfx90a_gpu"} 2`+"\n"+
		waitingMetric+`{platform="linux",teamName="main",type="get",workerTags=""} 1`+"\n"
	url := worker(t, &text)
	b.site = Site{Time: b.time, Builds: map[string]jobexporter.Build{handle: {Team: "main", Pipeline: "rocm", Job: "unit", Name: "7", Step: "test", ID: 42}},
		Started: []jobexporter.Started{{Build: jobexporter.Build{Team: "main", Pipeline: "rocm", Job: "unit", Name: "7", ID: 42}, Task: true},
			{Build: jobexporter.Build{Team: "main", Pipeline: "rocm", Job: "wait", Name: "3", ID: 43}}, {Build: jobexporter.Build{Team: "other", Job: "x", ID: 44}}},
		Workers: []jobexporter.Worker{{Name: "gpu-0", State: "running", Platform: "linux", Tags: []string{"gpu", "gfx=gfx90a"}}, {Name: "old-0", State: "stalled"}}}
	f := fleetfile.File{Concourse: "https://ci.example.com", Metrics: []string{worker(t, &metrics)}, RequiredArchs: []string{"gfx942"},
		Workers: []fleetfile.Worker{{Unit: "gpu/0", Name: "gpu-0", URL: url, Count: 3}}}
	b.write(t, f)
	b.Round(context.Background())
	b.time = b.time.Add(30 * time.Second)
	b.Round(context.Background())

	r := b.report(t)
	require.Empty(t, r.Problem)
	require.Equal(t, Holder{Container: handle, Team: "main", Pipeline: "rocm", Job: "unit", Build: "7", Step: "test", URL: "https://ci.example.com/builds/42"},
		r.Workers[0].GPUs[0].Holders[0])
	two := 2
	require.Equal(t, Summary{Workers: 2, GPUs: 3, Free: 1, Busy: 1, Quarantined: 1, Critical: 1, Waiting: &two, Load: .4, Power: 200}, r.Summary)
	first := hosttest.Now.UTC()
	require.Equal(t, []Waiting{{Team: "main", Type: "task", Tags: "gfx=gfx90a_gpu", Steps: 2, Reason: "1 of 3 GPUs free: at the limit of tasks, or about to start",
		Since: &first, Builds: []Build{{Pipeline: "rocm", Job: "wait", Build: "3", URL: "https://ci.example.com/builds/43"}}}}, r.Waiting)
	require.Equal(t, []Covered{{Arch: "gfx90a", GPUs: 3, Quarantined: 1, Workers: 1}, {Arch: "gfx942", Required: true}}, r.Coverage)
	require.Equal(t, []Start{{"gfx90a", Maybe, "1 of 3 GPUs is free, but 2 tasks wait"}, {"gfx942", No, "no worker has one"}}, r.Starts)
	require.Equal(t, []TeamUsage{{Team: "main", Hours: .008, Energy: .002}}, r.Today.Teams, "30 s and 6000 J")
	require.Equal(t, .4, *r.History.Load[points-1])
	require.Equal(t, 2., *r.History.Waiting[points-1])
	require.Nil(t, r.History.Load[0])
	page := b.get(t, "/").Body.String()
	for _, want := range []string{`href="https://ci.example.com/builds/42">#7</a>`, `href="` + url + `/#gpu-0000:03:00.0"`, "main: rocm/unit", "hangs or is in reset", "stalled",
		`<td>2</td><td>30s</td>`, `<td class="long">main: rocm/wait <a href="https://ci.example.com/builds/43">#3</a></td>`, ">Queue for</th>", ">Team, and builds that may wait</th>"} {
		require.Contains(t, page, want)
	}

	build := b.get(t, "/builds/"+handle)
	require.Equal(t, []any{302, "https://ci.example.com/builds/42"}, []any{build.Code, build.Header().Get("Location")})
	require.Equal(t, 404, b.get(t, "/builds/ab2a4fe8-e932-49c4-b519-4f1da1901416").Code)

	f.HideNames = true
	b.write(t, f)
	b.Round(context.Background())
	for _, path := range []string{"/", "/api/v1/fleet"} {
		shown := b.get(t, path).Body.String()
		for _, hidden := range []string{"main", "rocm/unit", `"job"`, `"test"`, "#7"} {
			if path == "/" && hidden == "main" {
				hidden = "main:"
			}
			require.NotContains(t, shown, hidden, path)
		}
		require.Contains(t, shown, "https://ci.example.com/builds/42", "Concourse decides who may see the build")
	}
	require.Equal(t, []TeamUsage{{Hours: .008, Energy: .002}}, b.report(t).Today.Teams)
}

func TestSilentWorkerIsShownWithItsAge(t *testing.T) {
	b := newBed(t)
	text := gpusJSON(200)
	b.write(t, fleetfile.File{Workers: []fleetfile.Worker{{Unit: "gpu/0", URL: worker(t, &text), Count: 3},
		{Unit: "gpu/1", URL: "http://127.0.0.1:1", Count: 2, GPUs: []fleetfile.GPU{{Index: 4, GFX: "gfx942"}}}, {Unit: "gpu/2", Count: 1}}})
	b.Round(context.Background())
	first := b.time
	b.time, text = b.time.Add(12*time.Minute), ""
	b.Round(context.Background())
	r := b.report(t)
	w := r.Workers[0]
	require.False(t, w.Answered)
	require.Equal(t, "it answers 503", w.Problem)
	require.Equal(t, first.UTC().Truncate(time.Second), *w.Time)
	require.Len(t, w.GPUs, 3)
	for _, g := range w.GPUs {
		require.Equal(t, []any{Unknown, health.Unknown}, []any{g.Use, g.Health})
		require.Empty(t, g.Holders)
	}
	require.Equal(t, "no connection", r.Workers[1].Problem)
	require.Nil(t, r.Workers[1].Time)
	require.Equal(t, []int{4, 1}, []int{r.Workers[1].GPUs[0].Index, r.Workers[1].GPUs[1].Index})
	require.Equal(t, "its address is unknown", r.Workers[2].Problem)
	require.Equal(t, Summary{Workers: 3, Away: 3, GPUs: 6, Unknown: 6}, r.Summary)
	page := b.get(t, "/").Body.String()
	require.Contains(t, page, "✕ silent 12m<")
	require.Contains(t, page, "✕ silent<")
	require.Equal(t, 1, strings.Count(page, "it answers 503"))
}

func TestRunIsShownWithItsTitleUnlessNamesAreHidden(t *testing.T) {
	b := newBed(t)
	text := `{"gpus":[{"pci_bus_id":"0000:03:00.0","health":{"state":"healthy"},"lease":{"held":true,"kind":"run","container":"run-4f1c0a2b91d3","title":"ada: pytest"}}]}`
	for _, hidden := range []bool{false, true} {
		b.write(t, fleetfile.File{HideNames: hidden, Workers: []fleetfile.Worker{{Unit: "gpu/0", URL: worker(t, &text), Count: 1}}})
		b.Round(context.Background())
		require.Equal(t, !hidden, strings.Contains(b.get(t, "/").Body.String(), "<code>run-4f1c0a2b91d3</code> (ada: pytest)"))
		require.Equal(t, !hidden, strings.Contains(b.get(t, "/api/v1/fleet").Body.String(), "ada"))
	}
}

// An invalid file changes nothing but the remark, and a repaired one is read again.
func TestFileOfWorkersIsReadBeforeEachRound(t *testing.T) {
	b := newBed(t)
	b.Round(context.Background())
	require.Contains(t, b.report(t).Problem, "cannot read the list of workers: ")
	b.write(t, fleetfile.File{Workers: []fleetfile.Worker{{Unit: "gpu/10"}, {Unit: "gpu/9"}}})
	b.Round(context.Background())
	r := b.report(t)
	require.Empty(t, r.Problem)
	require.Equal(t, []string{"gpu/9", "gpu/10"}, []string{r.Workers[0].Unit, r.Workers[1].Unit})
	require.NoError(t, os.WriteFile(b.path, []byte(`{"workers":[{"unit":"gpu/1","url":"javascript:alert(1)"}]}`), 0o644))
	b.Round(context.Background())
	r = b.report(t)
	require.Contains(t, r.Problem, "is not a URL")
	require.Len(t, r.Workers, 2)
	require.Contains(t, b.get(t, "/").Body.String(), "is not a URL")
}

// A proxy leads requests to the path and does not change them.
func TestPagesWorkBelowThePathOfAProxy(t *testing.T) {
	b := &bed{Fleet: New(), mux: http.NewServeMux()}
	b.Flags(pflag.NewFlagSet("", pflag.ContinueOnError)) // with the page of flakes
	b.prepare(jobexporter.Surroundings{Logs: log.New(&b.logs, "", 0)}, b.mux)
	b.mux.HandleFunc("GET /metrics", func(http.ResponseWriter, *http.Request) {})
	moved := b.get(t, "/fleet?x=1")
	require.Equal(t, 3, moved.Code/100)
	require.Equal(t, "/fleet/?x=1", moved.Header().Get("Location"), "the host is the proxy's")
	for _, page := range []string{"/", "/fleet/", "/fleet/flakes"} {
		base, err := url.Parse(page)
		require.NoError(t, err)
		text := b.get(t, page).Body.String()
		links := regexp.MustCompile(`(?:href|src|action)="([^":]+)"`).FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, links, page)
		for _, link := range links {
			to, err := base.Parse(html.UnescapeString(link[1]))
			require.NoError(t, err)
			require.Equal(t, 200, b.get(t, to.String()).Code, "%s: %s", page, to)
		}
		require.Contains(t, text, "assets/page.css")
	}
	require.Equal(t, 200, b.get(t, "/fleet/-/healthy").Code)
	require.Equal(t, 404, b.get(t, "/fleet/metrics").Code, "it has the names of jobs also if the page hides them")
}

func TestPoliciesAllowOnlyOwnFiles(t *testing.T) {
	b := newBed(t)
	page := b.get(t, "/")
	csp := page.Header().Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} {
		require.Contains(t, csp, part)
	}
	require.NotContains(t, csp, "unsafe")
	require.NotContains(t, page.Body.String(), "<style")
	require.NotContains(t, page.Body.String(), "://cdn")
	found := 0
	for _, part := range strings.Split(page.Body.String(), `"`) {
		if strings.HasPrefix(part, "assets/") {
			found++
			file := b.get(t, "/"+part)
			require.Equal(t, 200, file.Code, part)
			require.Equal(t, "max-age=31536000, immutable", file.Header().Get("Cache-Control"))
			require.Equal(t, "nosniff", file.Header().Get("X-Content-Type-Options"))
		}
	}
	require.Equal(t, len(assets), found)
	require.Equal(t, "no-cache", b.get(t, "/assets/page.js").Header().Get("Cache-Control"))
	for _, path := range []string{"/assets/page.html", "/assets/README.md", "/assets/..%2fpage.js"} {
		require.Equal(t, 404, b.get(t, path).Code, path)
	}
}

func TestHistoryHasAFixedSize(t *testing.T) {
	var h history
	require.Less(t, unsafe.Sizeof(h), uintptr(16<<10))
	start := time.Date(2026, 1, 1, 0, 2, 0, 0, time.UTC)
	for i := range 2 * points {
		h.add(start.Add(time.Duration(i)*bucket), [allSeries]float64{loadSeries: float64(i)})
		h.add(start.Add(time.Duration(i)*bucket), [allSeries]float64{loadSeries: float64(i + 1)})
	}
	r := h.report()
	require.Len(t, r.Load, points)
	require.Equal(t, []float64{float64(points) + .5, float64(2*points) - .5}, []float64{*r.Load[0], *r.Load[points-1]})
	require.Equal(t, start.Add(time.Duration(2*points-1)*bucket).Truncate(bucket), r.Last)

	h.add(r.Last.Add(3*bucket), [allSeries]float64{})
	r = h.report()
	require.Nil(t, r.Load[points-2], "no data in a pause")
	require.NotNil(t, r.Load[points-4])
	h.add(r.Last.Add(-time.Hour), [allSeries]float64{})
	require.Nil(t, h.report().Load[points-2], "a clock that was set back")
	h.add(r.Last.Add(1000*time.Hour), [allSeries]float64{})
	require.Nil(t, h.report().Load[points-2])
}

func TestUsageBeginsAgainEachDay(t *testing.T) {
	var d day
	gpus := []Worker{{Answered: true, GPUs: []GPU{{watts: 100, Holders: []Holder{{Team: "a"}, {Team: "b"}}}, {watts: 50, Holders: []Holder{{Team: "a"}}}, {watts: 90}}}}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	d.start(noon)
	d.add(gpus, 2*time.Hour)
	require.Equal(t, Today{noon, []TeamUsage{{Team: "a", Hours: 3, Energy: .2}, {Team: "b", Hours: 1, Energy: .1}}}, d.report())
	d.start(noon.Add(11 * time.Hour))
	require.Len(t, d.report().Teams, 2)
	d.start(noon.Add(12 * time.Hour))
	require.Empty(t, d.report().Teams)
	for i := range 2 * maxTeams {
		d.add([]Worker{{Answered: true, GPUs: []GPU{{Holders: []Holder{{Team: fmt.Sprint(i)}}}}}}, time.Hour)
	}
	require.LessOrEqual(t, len(d.teams), maxTeams+1)
}

// Many workers that never answer must not delay the others.
func TestSilentWorkersAreAskedLast(t *testing.T) {
	workers := []fleetfile.Worker{{URL: "a", Count: 1}, {URL: "b", Count: 1}, {URL: "no GPU"}, {URL: "c", Count: 1}, {URL: "d", Count: 1}}
	before := map[string]seen{"a": {err: io.EOF}, "c": {err: io.EOF}, "d": {}}
	require.Equal(t, []int{1, 4, 0, 3}, silentLast(workers, before))
}

// A worker without GPUs records tasks, too.
func TestWorkersWithoutGPUsAreAskedForVerdictsOnly(t *testing.T) {
	file := fleetfile.File{Workers: []fleetfile.Worker{{Unit: "plain/0", Name: "plain-0", URL: "http://10.0.0.7:9401"}}}
	r := observed{at: hosttest.Now, file: file}.report()
	require.True(t, r.Workers[0].Answered)
	require.Empty(t, r.Workers[0].URL, "it has no page of GPUs")
	require.Equal(t, []flakes.Worker{{Name: "plain-0", URL: "http://10.0.0.7:9401"}}, r.seen(file).Workers)
}

// A worker on Windows has no exporter, and Concourse hears of it.
func TestWorkersOnWindowsAreShownByTheirTags(t *testing.T) {
	tags := []string{"windows", "gpu", "compute-runtime=rocm", "rocm", "gpu-count=2", "gfx=gfx1201"}
	r := observed{at: hosttest.Now, file: fleetfile.File{RequiredArchs: []string{"gfx1201"}}, site: jobexporter.Site{Time: hosttest.Now, Workers: []jobexporter.Worker{
		{Name: "box", State: "running", Platform: "windows", Tags: tags}, {Name: "off", State: "stalled", Platform: "windows", Tags: tags},
		{Name: "mac", State: "running", Platform: "darwin", Tags: tags}}}}.report()
	require.Equal(t, []Covered{{Arch: "gfx1201", Required: true, GPUs: 2, Workers: 1}}, r.Coverage)
	require.Equal(t, []int{3, 1, 4, 4}, []int{r.Summary.Workers, r.Summary.Away, r.Summary.GPUs, r.Summary.Unknown})
	page := pageOf(t, r)
	require.Contains(t, page, "box GPU 1")
	require.Contains(t, page, "Concourse lists it as stalled")
	require.Contains(t, page, "1 worker without GPUs: mac")
}

// A page shows an unknown value as unknown.
func TestUnknownIsShownAsUnknown(t *testing.T) {
	b := newBed(t)
	busy := `{"gpus":[{"index":0,"pci_bus_id":"0000:03:00.0","partitions":1,"health":{"state":"healthy"},"activity_ratio":0.88,"users":[]},
		{"index":1,"pci_bus_id":"0000:04:00.0","partitions":1,"health":{"state":"healthy"},"activity_ratio":0.02,"users":[]},
		{"index":2,"pci_bus_id":"0000:05:00.0","partitions":1,"health":{"state":"healthy"},"users":[],"service":{"state":"on_probation","since":"2026-01-01T00:00:00Z","why":"x","by":"health"}}]}`
	metrics := ""
	b.write(t, fleetfile.File{Metrics: []string{worker(t, &metrics)}, Workers: []fleetfile.Worker{{Unit: "gpu/0", Name: "gpu-0", URL: worker(t, &busy), Count: 3}}})
	metrics = "concourse_workers_containers 0\n" // of a web without its database
	b.site = Site{Problem: "Concourse does not answer"}
	b.Round(context.Background())
	r := b.report(t)
	require.Nil(t, r.Summary.Waiting)
	require.Equal(t, []Use{Unknown, Free, OnProbation}, []Use{r.Workers[0].GPUs[0].Use, r.Workers[0].GPUs[1].Use, r.Workers[0].GPUs[2].Use})
	page := b.get(t, "/").Body.String()
	require.Contains(t, page, "<b>?</b> tasks waiting")
	require.Contains(t, page, "Unknown: Concourse or the metrics of a web do not answer.")
	require.Contains(t, page, "No GPU is known to be in use; 1 unknown.")
	require.Contains(t, page, "<b>0</b> quarantined")
	require.Contains(t, page, "<b>1</b> on probation", "as on the worker's page")
	require.Contains(t, page, "<b>–</b> power", "no GPU reports it")
	require.Contains(t, page, "<b>45 %</b> load")

	b.site.Problem = ""
	b.Round(context.Background())
	require.Equal(t, new(0), b.report(t).Summary.Waiting)
	require.Contains(t, b.get(t, "/").Body.String(), "No task waits for a worker.")
}
