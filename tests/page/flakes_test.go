//go:build e2e

package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakes"
)

// flaky makes up a report with a row of each kind.
func flaky() *flakereport.Report {
	r := flakereport.Empty("v1.0.0", now, "")
	r.Concourse, r.Builds, r.Runs = "https://ci.example.com", 4211, 9034
	var found flake.Report
	place := flake.Place{Worker: "gpu-2-0badcafe", GPU: "0000:83:00.0", Failures: 7, Runs: 9, OthersRuns: 41, Tasks: 3, Probability: 3.6e-7}
	for i, kind := range []flake.Kind{flake.KindGPU, flake.KindTest, flake.KindWorker} {
		f := flake.Flake{Key: flake.Key{Team: "pytorch", Pipeline: "rocm-pr/branch:main", Job: "pull-request", Step: "unit (gfx942)", Test: fmt.Sprintf("tests.gpu.test_ops.TestMatmul.test_%d[float16-cuda]", i)},
			Kind: kind, Failures: 7 - i, Runs: 50, Rate: .14, Since: now.Add(-72 * time.Hour), Last: now.Add(-time.Hour), Builds: []flake.Build{{ID: 90, Name: "41"}, {ID: 80, Name: "38.1"}}}
		if kind != flake.KindTest {
			one := place
			if f.Place = &one; kind == flake.KindWorker {
				one.GPU = ""
			}
		}
		found.Flakes = append(found.Flakes, f)
	}
	found.Places = []flake.Place{place}
	found.Lost = []flake.Lost{{Key: found.Flakes[0].Key, Build: flake.Build{ID: 91, Name: "42"}, Worker: "gpu-1-0badcafe", Time: now.Add(-time.Hour),
		Cause: flake.ByMachine, Reason: "the disk of the work folder was full"}}
	r.Add(found, flakereport.Names{{"gpu-2-0badcafe", "0000:83:00.0"}: 3})
	return r
}

// eachFlakes shows the page with and without rows on each screen, by day and by night.
func eachFlakes(t *testing.T, b *browser, check func(t *testing.T, name string, v view)) {
	for name, r := range map[string]*flakereport.Report{"none": flakereport.Empty("v1.0.0", now, "Concourse has not been asked for builds yet"), "some": flaky()} {
		mux := http.NewServeMux()
		mux.Handle("GET /flakes", flakes.Page(func() *flakereport.Report { return r }, "assets/page.css", func() time.Time { return now }))
		mux.Handle("GET /assets/{name}", fleet.Assets())
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		for _, v := range []view{{width: 1440, height: 900, noJS: true}, {width: 1440, height: 900}, {width: 1440, height: 900, dark: true}, {width: 390, height: 844}, {width: 390, height: 844, dark: true}} {
			t.Run(fmt.Sprintf("%s %d dark=%t noJS=%t", name, v.width, v.dark, v.noJS), func(t *testing.T) {
				b.t = t
				b.visit(s.URL+"/flakes", v)
				check(t, name, v)
			})
		}
	}
	b.t = t
}

func TestBrowserShowsFlakes(t *testing.T) {
	b := newBrowser(t)
	pictures := os.Getenv("PICTURES") // a folder, to look at them
	eachFlakes(t, b, func(t *testing.T, name string, v view) {
		if name == "some" {
			require.Contains(t, b.text(), "this test failed on GPU 3 (0000:83:00.0) of worker gpu-2-0badcafe in 7 of 9 runs and on others in 0 of 41")
		}
		var width int
		b.eval(`document.documentElement.scrollWidth`, &width)
		require.LessOrEqual(t, width, v.width, "nothing is beside the screen")
		if pictures != "" {
			data, _ := b.picture()
			require.NoError(t, os.WriteFile(filepath.Join(pictures, filepath.Base(t.Name())+".png"), data, 0o644))
		}
	})
}

func TestNothingKeepsPeopleOutOfFlakes(t *testing.T) {
	script := axe(t)
	b := newBrowser(t)
	eachFlakes(t, b, func(t *testing.T, _ string, v view) {
		if !v.noJS {
			require.Empty(t, b.hinders(script))
		}
	})
}
