//go:build e2e

package page

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// serve runs the exporter on a fixture host and returns its page's address.
func serve(t *testing.T, r host.Root) string {
	t.Helper()
	return launch(t, "rocm-exporter", "serve", "--path.root="+string(r))
}

// programs is the folder of the exporters, made when a test first needs one.
var programs string

func TestMain(m *testing.M) {
	os.Exit(suite.InFolder(m, func(dir string) error {
		programs = dir
		return nil
	}))
}

var buildExporters = sync.OnceValue(func() error {
	return suite.Build(programs, "./src/rocm-exporter", "./src/concourse-exporter")
})

// launch runs an exporter and returns its page's address.
func launch(t *testing.T, program string, flags ...string) string {
	t.Helper()
	require.NoError(t, buildExporters())
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	cmd := exec.CommandContext(ctx, filepath.Join(programs, program), append(flags, "--web.listen-address=127.0.0.1:0")...)
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		require.Error(t, cmd.Wait(), "it was there until it was killed")
	})
	line, err := bufio.NewReader(errs).ReadString('\n')
	require.NoError(t, err, line)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), program+": listening on ")
	require.True(t, ok, line)
	return "http://" + address + "/"
}

func TestBrowserShowsTheGPU(t *testing.T) {
	b := newBrowser(t)
	url := serve(t, hosttest.Host(t, "amd"))
	for _, noJS := range []bool{false, true} {
		b.open(url, view{width: 1200, height: 800, noJS: noJS})
		for _, want := range []string{"GPU 0", "AMD Radeon RX 7900 XT", "✓ healthy 100 of 100", "nothing wrong with temperature",
			"72 of 108 °C mem", "137 of 315 W", "5.8 of 20.0 GiB", "total power 137 W of 315 W", "2304 of 2560 MHz", "1124 rpm"} {
			require.Contains(t, b.text(), want)
		}
		require.Equal(t, noJS, strings.Contains(b.text(), "Load the page again for new values."))
	}
}

// What a GPU is called can come from a card's own memory.
func TestBrowserRunsNothingFromAName(t *testing.T) {
	b := newBrowser(t)
	r := hosttest.Host(t, "mi210x4")
	names, err := filepath.Glob(r.Path("/sys/bus/pci/devices") + "/*/product_name")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, n := range names {
		require.NoError(t, os.WriteFile(n, []byte("<i id=injected>x</i>\n"), 0o644))
	}
	b.open(serve(t, r), view{width: 1200, height: 800})
	var injected int
	b.eval(`document.querySelectorAll("#injected").length`, &injected)
	require.Zero(t, injected)
	require.Contains(t, b.text(), "<i id=injected>x</i>")
}

// screens are those of a desk and a phone, by day and by night.
var screens = []view{{width: 1440, height: 900}, {width: 1440, height: 900, dark: true}, {width: 390, height: 844}, {width: 390, height: 844, dark: true}}

// allViews also has a browser without scripts.
var allViews = append(slices.Clone(screens), view{width: 1440, height: 900, noJS: true})

// eachView shows any number of GPUs on each screen. most is the number of a long table, 24
// or more.
func eachView(t *testing.T, b *browser, most int, views []view, check func(t *testing.T, gpus int, v view)) {
	eight, many, divided := eightGPUs(), gpus(most), partitions(most)
	many[17], many[12], many[20] = out(hurt(many[17]), quarantine.Quarantined), out(many[12], quarantine.OnProbation), hot(many[20])
	for i := range 8 {
		divided[16+i] = out(divided[16+i], quarantine.Quarantined)
	}
	for name, all := range map[string][]api.Status{"none": nil, "1": workstation(), "4": gpus(4), "4 long names": longNames(), "8": gpus(8), "8 partitions": partitions(8),
		"8, one quarantined": eight, fmt.Sprint(most): many, fmt.Sprint(most, " partitions"): divided} {
		url := made(t, all)
		for _, v := range views {
			t.Run(fmt.Sprintf("%s %+v", name, v), func(t *testing.T) {
				b.t = t
				b.open(url, v)
				check(t, len(all), v)
			})
		}
	}
	b.t = t
}

func TestBrowserShowsAnyNumberOfGPUs(t *testing.T) {
	b := newBrowser(t)
	pictures := os.Getenv("PICTURES") // a folder, to look at them
	eachView(t, b, 64, allViews, func(t *testing.T, gpus int, v view) {
		var size struct{ Width, Height int }
		b.eval(`({ Width: document.documentElement.scrollWidth, Height: document.documentElement.scrollHeight })`, &size)
		require.LessOrEqual(t, size.Width, v.width, "nothing is beside the screen")
		if v.width == 1440 {
			screens := 1 + gpus/64
			require.LessOrEqual(t, size.Height, screens*v.height, "eight GPUs are on one screen")
		}
		if pictures != "" {
			data, _ := b.picture()
			_, name, _ := strings.Cut(t.Name(), "/")
			name = strings.NewReplacer("{", "", "}", "", ":", "-", ",", "").Replace(name)
			require.NoError(t, os.WriteFile(filepath.Join(pictures, name+".png"), data, 0o644))
		}
	})
}

func TestNothingKeepsPeopleOutOfThePage(t *testing.T) {
	script := axe(t)
	b := newBrowser(t)
	b.eval(`document.body.append(new Image())`, nil)
	require.NotEmpty(t, b.hinders(script), "a picture without a text is found")
	// axe is a script; without one the page has the same elements.
	eachView(t, b, 24, screens, func(t *testing.T, _ int, v view) {
		if v == screens[0] { // unfolded, the page has these elements and more
			require.Empty(t, b.hinders(script))
		}
		b.eval(`for (const d of document.querySelectorAll("details")) d.open = true`, nil)
		require.Empty(t, b.hinders(script), "unfolded")
	})
}

// By day, by night and without a script: which GPU no task gets, since when and why.
func TestBrowserShowsQuarantinedGPUs(t *testing.T) {
	b := newBrowser(t)
	few, many := gpus(4), gpus(64)
	few[1], many[37] = out(few[1], quarantine.Quarantined), out(many[37], quarantine.Quarantined)
	for _, all := range [][]api.Status{few, many} {
		url := made(t, all)
		for _, v := range []view{{width: 1200, height: 800}, {width: 1200, height: 800, noJS: true}, {width: 390, height: 844, dark: true}} {
			b.open(url, v)
			require.Contains(t, b.text(), "⊘ 1 quarantined")
			require.Contains(t, b.text(), "⊘ quarantined since 2026-08-01 14:03:08 UTC: hangs or is in reset (kernel_log)")
			var edge []string
			b.eval(`(() => { const gpu = document.querySelector(".gpu"); return [...gpu.classList, getComputedStyle(gpu).borderLeftColor] })()`, &edge)
			require.Equal(t, []string{"gpu", "quarantined", map[bool]string{false: "rgb(107, 63, 160)", true: "rgb(200, 164, 244)"}[v.dark]}, edge)
		}
	}
}

// What a reader has unfolded stays so, also the focus of the keyboard, when new values
// come.
func TestBrowserKeepsWhatIsUnfolded(t *testing.T) {
	b := newBrowser(t)
	many := gpus(64)
	many[37] = hurt(many[37])
	b.open(made(t, many), view{width: 1440, height: 900})
	require.Contains(t, b.text(), "1 uncorrectable error", "what is wrong is seen at once")
	require.NotContains(t, b.text(), "juju run rocm-worker/0 explain-error code=7")
	var kept bool
	b.eval(`new Promise((done) => {
		const first = document.querySelector("details"), id = first.id;
		first.open = true;
		first.firstElementChild.focus();
		new MutationObserver(() => setTimeout(() => {
			const again = document.getElementById(id);
			done(again !== first && again.open && document.activeElement === again.firstElementChild);
		})).observe(document.body, { childList: true });
		document.dispatchEvent(new Event("visibilitychange"));
	})`, &kept)
	require.True(t, kept)
	require.Contains(t, b.text(), "juju run rocm-worker/0 explain-error code=7")
	require.Equal(t, 0, strings.Index(b.text()[strings.Index(b.text(), "GPU 37"):], "GPU 37"), "the worst is the first")
}
