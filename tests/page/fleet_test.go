//go:build e2e

package page

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// serveFleet runs concourse-exporter with a Concourse and a list of workers, and returns its
// page's address.
func serveFleet(t *testing.T, file fleetfile.File) string {
	t.Helper()
	dir := t.TempDir()
	web := atctest.New(t)
	web.Set(func(s *atctest.Server) { s.Site() })
	file.Concourse = web.URL
	workers, err := file.Marshal()
	require.NoError(t, err)
	credentials, err := login.Credentials{URL: web.URL, Username: "admin", Password: "s3 cr&t"}.Marshal()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fleet.json"), workers, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "login.json"), credentials, 0o600))
	return launch(t, "concourse-exporter", "--credentials-file="+filepath.Join(dir, "login.json"),
		"--fleet.file="+filepath.Join(dir, "fleet.json"), "--poll.interval=5s", "--poll.timeout=5s")
}

// The whole way: two exporters on machines' files, the web's exporter, and the page.
func TestBrowserShowsTheFleet(t *testing.T) {
	b := newBrowser(t)
	one, four := serve(t, hosttest.Host(t, "amd")), serve(t, hosttest.Host(t, "mi210x4"))
	url := serveFleet(t, fleetfile.File{RequiredArchs: []string{"gfx90a", "gfx1201"}, Workers: []fleetfile.Worker{
		{Unit: "gpu/0", Name: "gpu-0-0badcafe", URL: strings.TrimSuffix(one, "/"), Count: 1},
		{Unit: "gpu/1", Name: "gpu-1-0badcafe", URL: strings.TrimSuffix(four, "/"), Count: 4},
		{Unit: "gpu/2", URL: "http://127.0.0.1:1", Count: 2, GPUs: []fleetfile.GPU{{GFX: "gfx90a"}, {Index: 1}}},
	}})
	b.visit(url, view{width: 1440, height: 900})
	b.eval(`new Promise((done) => {
		const look = () => fetch("api/v1/fleet").then((a) => a.json()).then((r) => r.workers.some((w) => w.answered) && r.concourse.time ? done() : setTimeout(look, 200));
		look();
	})`, nil)
	for _, noJS := range []bool{false, true} {
		b.open(url, view{width: 1440, height: 900, noJS: noJS})
		text := b.text()
		for _, want := range []string{"7\nGPUs", "gpu/0", "gpu/1", "silent", "never", "does not answer", "no connection",
			"gfx1201 required", "no worker has it", "gfx90a required", "stalled", "plain-0-0badcafe"} {
			require.Contains(t, text, want)
		}
		var canvases int
		b.eval(`document.querySelectorAll("figure canvas").length`, &canvases)
		require.Equal(t, map[bool]int{false: 2, true: 0}[noJS], canvases, "no web has waiting tasks, and a chart without values is not drawn")
	}
	var link string
	b.eval(`document.querySelector("a.tile").href`, &link)
	require.True(t, strings.HasPrefix(link, one+"#gpu-0000:"), link)
	b.visit(link, view{width: 1440, height: 900})
	require.Contains(t, b.text(), "AMD Radeon RX 7900 XT", "the status page of the worker")
}

// fleetOf makes up workers with eight GPUs each, or fewer.
func fleetOf(gpus int) fleet.Report {
	r := fleet.Report{Time: now, Version: "v1.0.0", Concourse: fleet.Concourse{URL: "https://ci.example.com", Time: &now},
		Waiting: []fleet.Waiting{}, Coverage: []fleet.Covered{{Arch: "gfx90a", Required: true, GPUs: gpus, Workers: (gpus + 7) / 8}}}
	teams := []string{"kernels", "main", "pytorch", "vision"}
	for i := range gpus {
		if i%8 == 0 {
			r.Workers = append(r.Workers, fleet.Worker{Unit: fmt.Sprintf("rocm-worker/%d", i/8), Worker: fmt.Sprintf("rocm-worker-%d-0badcafe", i/8),
				State: "running", URL: fmt.Sprintf("http://10.0.%d.%d:9401", i/8/250, 11+i/8%250), Answered: true, Time: &now})
		}
		w := &r.Workers[i/8]
		g := fleet.GPU{Index: i % 8, Model: "AMD Instinct MI210", GFX: "gfx90a", PCI: fmt.Sprintf("0000:%02x:00.0", 3+i%8), Health: health.Healthy, Use: fleet.Free,
			View: pool.View{Lease: &pool.Lease{}}, Activity: of(.02), Power: of(45.), Holders: []fleet.Holder{}}
		if build := i / 2; i%5 > 1 {
			since := now.Add(-time.Duration(3+i%97) * time.Minute)
			g.Use, g.Lease, g.Activity, g.Power = fleet.Leased, &pool.Lease{Held: true, Holder: pool.Holder{Since: &since}}, of(.4+.05*float64(i%11)), of(180.+float64(i%100))
			g.Holders = []fleet.Holder{{Container: fmt.Sprintf("eb2a4fe8-e932-49c4-b519-4f1da190%04x", build), Team: teams[build%4], Pipeline: "rocm-7",
				Job: fmt.Sprintf("unit-%d", build%7), Build: fmt.Sprint(100 + build), Step: "test", URL: fmt.Sprintf("https://ci.example.com/builds/%d", 4000+build)}}
		}
		if i/8 == 2 { // a worker of another architecture, and all of it in use
			since := now.Add(-time.Duration(8+i) * time.Minute)
			g.Model, g.GFX, g.Use, g.Lease = "AMD Instinct MI300X", "gfx942", fleet.Leased, &pool.Lease{Held: true, Holder: pool.Holder{Since: &since}}
			g.Holders = []fleet.Holder{{Container: "run-4f1c0a2b91d3"}}
		}
		w.GPUs = append(w.GPUs, g)
	}
	if gpus >= 24 {
		r.Coverage = []fleet.Covered{{Arch: "gfx90a", Required: true, GPUs: gpus - 8, Workers: (gpus - 1) / 8}, {Arch: "gfx942", GPUs: 8, Workers: 1}}
	}
	r.Today = fleet.Today{Since: now.Add(-6 * time.Hour)}
	for i, team := range teams {
		r.Today.Teams = append(r.Today.Teams, fleet.TeamUsage{Team: team, Hours: float64(gpus) * (4 - float64(i)) / 2, Energy: float64(gpus) * (4 - float64(i)) / 11})
	}
	past := func(low, high, from float64) []*float64 {
		out := make([]*float64, 288)
		for i := range out {
			if float64(i) >= 288*from {
				out[i] = of(math.Round(1000*(low+(high-low)*(.5+.5*math.Sin(float64(i)/23)*math.Cos(float64(i)/61)))) / 1000)
			}
		}
		return out
	}
	n := float64(gpus)
	r.History = fleet.History{Interval: 300, Last: now.Truncate(5 * time.Minute), Load: past(.2, .9, .1), GPUs: past(n, n, .1), Free: past(n/8, n*.7, .1), Waiting: past(0, 9, .1)}
	return r
}

// sickFleet has a quarantined GPU, one in probation, a critical one, and a worker that does
// not answer.
func sickFleet(gpus int) fleet.Report {
	r := fleetOf(gpus)
	first := r.Workers[0].GPUs
	first[1].Health, first[1].Use, first[1].Reason, first[1].Holders = health.Critical, fleet.Quarantined, "hangs or is in reset", []fleet.Holder{}
	first[1].Service = &pool.Service{State: quarantine.Quarantined, Since: now.Add(-47 * time.Minute), Why: "hangs or is in reset (kernel_log)", By: quarantine.ByHealth}
	first[5].Use, first[5].Holders = fleet.OnProbation, []fleet.Holder{}
	first[5].Service = &pool.Service{State: quarantine.OnProbation, Since: now.Add(-4 * time.Minute), Why: "2 uncorrectable errors (ECC Error - Uncorrectable)", By: quarantine.ByHealth}
	first[6].Health, first[6].Reason = health.Warning, "91 °C of 100 °C (junction)"
	if len(r.Workers) > 1 {
		away, at := &r.Workers[1], now.Add(-12*time.Minute)
		away.Answered, away.Time, away.Problem = false, &at, "no connection"
		for i := range away.GPUs {
			g := &away.GPUs[i]
			g.Use, g.Health, g.Holders = fleet.Unknown, health.Unknown, []fleet.Holder{}
		}
	}
	since := now.Add(-14 * time.Minute)
	r.Waiting = []fleet.Waiting{{Team: "pytorch", Type: "task", Tags: "gfx=gfx942_gpu", Steps: 5, Reason: "all 8 GPUs in use", Since: &since},
		{Team: "main", Type: "task", Tags: "gfx=gfx1201", Steps: 2, Reason: "no worker has gfx=gfx1201"}}
	for i := range 6 {
		r.Waiting[0].Builds = append(r.Waiting[0].Builds, fleet.Build{Pipeline: "rocm-7", Job: fmt.Sprintf("unit-%d", i), Build: "118", URL: fmt.Sprintf("https://ci.example.com/builds/%d", 4100+i)})
	}
	if gpus < 24 {
		r.Waiting[0].Reason = "no worker has gfx=gfx942"
	}
	r.Coverage = append(r.Coverage, fleet.Covered{Arch: "gfx1201", Required: true})
	return r
}

// longFleet has names without a space in them.
func longFleet() fleet.Report {
	r := sickFleet(16)
	const name = "the-machine-learning-compilers-group-with-a-name-that-nobody-shortened"
	for i := range r.Workers {
		r.Workers[i].Unit = name + fmt.Sprintf("/%d", i)
		for j := range r.Workers[i].GPUs {
			g := &r.Workers[i].GPUs[j]
			g.GFX = "gfx90a"
			for k := range g.Holders {
				h := &g.Holders[k]
				h.Team, h.Pipeline, h.Job, h.Step = name, name, name, name
			}
		}
	}
	r.Concourse.URL = "https://" + name + ".example.com"
	r.Waiting[0].Tags, r.Waiting[0].Reason, r.Waiting[0].Team = name, "no worker has "+name, name
	return r
}

// madeFleet serves the page with made-up workers.
func madeFleet(t *testing.T, r fleet.Report) string {
	t.Helper()
	s := httptest.NewServer(fleetPages(r))
	t.Cleanup(s.Close)
	return s.URL
}

func fleetPages(r fleet.Report) http.Handler {
	known := r.Concourse.Problem == ""
	r.Summary = fleet.SummaryOf(r, known)
	waiting := map[string]int{}
	for _, w := range r.Waiting {
		arch, _, _ := strings.Cut(strings.TrimPrefix(w.Tags, "gfx="), "_")
		waiting[arch] += w.Steps
	}
	r.Starts = fleet.StartsOf(r, waiting)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", fleet.Page(func() *fleet.Report { return &r }, func() time.Time { return now }))
	mux.Handle("GET /assets/{name}", fleet.Assets())
	return mux
}

var emptyFleet = fleet.Report{Time: now, Version: "v1.0.0", Problem: "cannot read the list of workers: it is not JSON", Concourse: fleet.Concourse{Problem: "Concourse does not answer"}}

// eachFleet shows fleets on each screen.
func eachFleet(t *testing.T, b *browser, all map[string]fleet.Report, views []view, check func(t *testing.T, v view)) {
	for name, r := range all {
		url := madeFleet(t, r)
		for _, v := range views {
			t.Run(fmt.Sprintf("fleet %s %d dark=%t noJS=%t", name, v.width, v.dark, v.noJS), func(t *testing.T) {
				b.t = t
				b.open(url, v)
				check(t, v)
			})
		}
	}
	b.t = t
}

func TestBrowserShowsAFleetOfAnySize(t *testing.T) {
	b := newBrowser(t)
	pictures := os.Getenv("PICTURES") // a folder, to look at them
	all := map[string]fleet.Report{"none": emptyFleet, "1": fleetOf(1), "8": fleetOf(8), "64": fleetOf(64), "512": fleetOf(512),
		"16 sick": sickFleet(16), "512 sick": sickFleet(512), "long names": longFleet()}
	eachFleet(t, b, all, allViews, func(t *testing.T, v view) {
		var size struct{ Width, Strip, Wide, Cut int }
		b.eval(`({ Width: document.documentElement.scrollWidth, Cut: [...document.querySelectorAll("h3 > span")].filter((s) => s.getBoundingClientRect().right > s.parentElement.getBoundingClientRect().right).length, Wide: [...document.querySelectorAll("table")].filter((t) => t.offsetWidth > t.parentElement.clientWidth).length, Strip: Math.round(document.getElementById("strip").getBoundingClientRect().bottom) })`, &size)
		require.LessOrEqual(t, size.Width, v.width, "nothing is beside the screen")
		require.Zero(t, size.Wide, "no table covers another section")
		require.Zero(t, size.Cut, "the age of a silent worker is seen")
		if v.width == 1440 {
			require.LessOrEqual(t, size.Strip, v.height, "all GPUs are on one screen")
		}
		if pictures != "" {
			data, _ := b.picture()
			_, name, _ := strings.Cut(t.Name(), "/")
			require.NoError(t, os.WriteFile(filepath.Join(pictures, name+".png"), data, 0o644))
		}
	})
}

func TestNothingKeepsPeopleOutOfTheFleet(t *testing.T) {
	script := axe(t)
	b := newBrowser(t)
	all := map[string]fleet.Report{"none": emptyFleet, "8": fleetOf(8), "16 sick": sickFleet(16)}
	eachFleet(t, b, all, screens, func(t *testing.T, v view) {
		b.eval(`for (const d of document.querySelectorAll("details")) d.open = true`, nil)
		require.Empty(t, b.hinders(script))
	})
}
