//go:build e2e

package page

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// pointAt moves the mouse over a share of an element's width, and returns the text of the hint.
func (b *browser) pointAt(element string, share float64) (tip string) {
	b.t.Helper()
	var at struct{ X, Y, Width, Height float64 }
	b.eval(`(() => { const { x, y, width, height } = `+element+`.getBoundingClientRect(); return { x, y, width, height } })()`, &at)
	b.ask("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": at.X + share*at.Width, "y": at.Y + at.Height/2}, nil)
	b.eval(`document.getElementById("tip").hidden ? "" : document.getElementById("tip").textContent`, &tip)
	return tip
}

func TestBrowserShowsTimeAndValueUnderThePointer(t *testing.T) {
	b := newBrowser(t)
	all := gpus(8)
	memory := all[0].History.Memory
	*memory[0], memory[1], *memory[89] = 3.25e9, nil, 54.3e9
	b.open(made(t, all), view{width: 1440, height: 900})
	chart := func(row string) string { return `document.querySelector(".gpu .row:nth-child(` + row + `) svg")` }
	require.Equal(t, "3.0 GiB at 14:00:18 UTC", b.pointAt(chart("3"), .001))
	require.Equal(t, "50.6 GiB at 14:15:08 UTC", b.pointAt(chart("3"), .999))
	require.Regexp(t, `^\d+ °C at 14:07:(38|48) UTC$`, b.pointAt(chart("1"), .5))
	require.Empty(t, b.pointAt(`document.querySelector("h1")`, .5))
	require.Empty(t, b.remarks)
}

// The bars of a hot GPU have the colours of its limits.
func TestBrowserColoursBarsByTheirLimits(t *testing.T) {
	b := newBrowser(t)
	all := gpus(4)
	all[0] = hot(all[0])
	b.open(made(t, all), view{width: 1440, height: 900})
	_, picture := b.picture()
	for row, want := range map[string][]uint32{"1": {0xcf, 0x2b, 0x2b}, "2": {0x2b, 0x62, 0xb8}, "3": {0xd9, 0x8a, 0x00}} {
		var at struct{ X, Y int }
		b.eval(`(({ x, y, height }) => ({ x: Math.round(x + 12), y: Math.round(y + height / 2) }))(document.querySelector(".gpu .row:nth-child(`+row+`) meter").getBoundingClientRect())`, &at)
		r, g, b, _ := picture.At(at.X, at.Y).RGBA()
		require.Equal(t, want, []uint32{r >> 8, g >> 8, b >> 8}, "row %s", row)
	}
}

// shown returns the names of the lines that are visible.
func (b *browser) shown() (names []string) {
	b.t.Helper()
	b.eval(`[...document.querySelectorAll(".gpu")].filter((g) => !g.hidden).map((g) => g.querySelector("h2").textContent)`, &names)
	return names
}

func TestBrowserFiltersALongTable(t *testing.T) {
	b := newBrowser(t)
	many := gpus(64)
	many[37] = hurt(many[37])
	url := made(t, many)
	b.open(url, view{width: 1440, height: 900})
	require.Len(t, b.shown(), 64)
	enter := func(text string) {
		b.eval(`(() => { const f = document.getElementById("filter"); f.value = "`+text+`"; f.dispatchEvent(new Event("input")) })()`, nil)
	}
	enter("critical mi210")
	require.Equal(t, []string{"GPU 37"}, b.shown())
	b.eval(`new Promise((done) => {
		document.addEventListener("shown", () => setTimeout(done), { once: true });
		document.dispatchEvent(new Event("visibilitychange"));
	})`, nil)
	require.Equal(t, []string{"GPU 37"}, b.shown(), "new values stay filtered")
	enter(handle(10))
	require.Equal(t, []string{"GPU 10"}, b.shown())
	for _, noJS := range []bool{false, true} {
		b.open(url+"/?show=critical", view{width: 1440, height: 900, noJS: noJS})
		require.Contains(t, b.text(), "✕ 1 critical")
		require.Contains(t, b.text(), "64 GPUs")
		require.NotContains(t, b.text(), "GPU 10")
	}
}

// A page without its exporter names the time of its values on the exporter's
// clock.
func TestBrowserNamesTheAgeOfPagesWithoutTheirExporter(t *testing.T) {
	for name, page := range map[string]http.Handler{"GPUs": pageOf(gpus(1)), "fleet": fleetPages(sickFleet(8))} {
		t.Run(name, func(t *testing.T) {
			b, s := newBrowser(t), httptest.NewServer(page)
			b.open(s.URL, view{width: 1000, height: 1000})
			s.Close()
			var live string
			b.eval(`new Promise((done) => {
				const live = document.getElementById("live");
				new MutationObserver(() => { if (live.textContent.startsWith("Not live")) done(live.textContent); })
					.observe(live, { childList: true, characterData: true, subtree: true });
				document.dispatchEvent(new Event("visibilitychange"));
			})`, &live)
			require.Contains(t, live, "since 14:15:08 UTC. The values are of then.")
		})
	}
}
