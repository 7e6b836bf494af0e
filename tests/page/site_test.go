//go:build e2e

package page

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// site is a server of the site of docs/, made by `make site`.
type site struct {
	*httptest.Server
	pages []string

	mu     sync.Mutex
	failed []string // requests that had no answer
}

// answer records the status of an answer.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// madeSite makes the site once for all tests.
var madeSite = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("make", "-C", "../..", "site").CombinedOutput()
})

func newSite(t *testing.T) *site {
	t.Helper()
	need(t, "chromium")
	if _, err := os.Stat("/usr/share/mkdocs/themes/material"); err != nil {
		if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ",mkdocs-material,") {
			require.NoError(t, err)
		}
		t.Skip("the theme of the site is not installed (Debian: mkdocs-material)")
	}
	out, err := madeSite()
	require.NoError(t, err, "%s", out)
	folder := os.DirFS("../../dist/site")
	s := &site{}
	require.NoError(t, fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if filepath.Base(name) == "index.html" {
			s.pages = append(s.pages, strings.TrimSuffix(name, "index.html"))
		}
		return err
	}))
	files := http.FileServerFS(folder)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{w, http.StatusOK}
		files.ServeHTTP(a, r)
		if a.status >= http.StatusBadRequest {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed = append(s.failed, r.URL.Path)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// The browser requests nothing from other servers and gets each file that it requests. No
// page is wider than the screen: wide code, tables and pictures scroll within it.
func TestPagesOfTheSiteAreWholeOnAPhone(t *testing.T) {
	b, s := newBrowser(t), newSite(t)
	require.Greater(t, len(s.pages), 30)
	for i, page := range s.pages {
		// The script is the same on all pages, and takes most of the time.
		b.visit(s.URL+"/"+page, view{width: 400, height: 800, noJS: i%10 > 0})
		var seen struct {
			Width         int
			From          []string
			Broken, Texts int
		}
		b.eval(`({
			Width: document.documentElement.scrollWidth,
			From: performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith(location.origin)),
			Broken: [...document.images].filter((i) => i.complete && !i.naturalWidth).length,
			Texts: document.querySelectorAll(".site-version").length,
		})`, &seen)
		require.LessOrEqual(t, seen.Width, 400, "%s on a phone", page)
		require.Empty(t, seen.From, page)
		require.Zero(t, seen.Broken, page)
		require.Equal(t, 1, seen.Texts, "%s has a version", page)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.failed)
}

func TestTheMenuOfTheSiteWorksOnAPhone(t *testing.T) {
	b, s := newBrowser(t), newSite(t)
	b.visit(s.URL, view{width: 400, height: 800})
	section, entry := inMenu("label.md-nav__link"), inMenu("a.md-nav__link")
	var onTop bool
	b.eval(section+".onTop()", &onTop)
	require.False(t, onTop, "the menu is folded")
	b.click(`document.querySelector("label[for=__drawer].md-header__button")`)
	b.eval(section+".comes()", nil)
	b.keep("menu-400")
	b.click(section + ".element")
	b.eval(entry+".comes()", nil)
	b.keep("menu-section-400")
	b.click(entry + ".element")
	b.until(func(m message) bool { return m.Method == "Page.loadEventFired" })
	var at string
	b.eval(`location.pathname`, &at)
	require.Equal(t, "/tutorial/own-machine/", at)
}

// inMenu is a script that finds the label of the menu's first section or its first page,
// whether a finger meets it there, and a promise that it does: the menu slides in.
func inMenu(selector string) string {
	return `({
		element: document.querySelector(".md-sidebar--primary .md-nav__item--nested ` + selector + `"),
		onTop() {
			const at = this.element.getBoundingClientRect(), x = at.x + at.width / 2;
			return x > 0 && this.element.contains(document.elementFromPoint(x, at.y + at.height / 2));
		},
		comes() { return new Promise((done) => { const look = () => this.onTop() ? done() : requestAnimationFrame(look); look(); }) },
	})`
}

// The theme adds a button when its block is on the screen.
func TestCommandsOfTheSiteCanBeCopied(t *testing.T) {
	b, s := newBrowser(t), newSite(t)
	b.visit(s.URL+"/tutorial/first-rocm-task/", view{width: 1440, height: 900})
	var blocks int
	b.eval(`(async () => {
		const all = [...document.querySelectorAll("pre > code")];
		for (const code of all) {
			code.scrollIntoView({ block: "center" });
			while (!code.parentElement.querySelector("button.md-clipboard")) await new Promise(requestAnimationFrame);
		}
		return all.length;
	})()`, &blocks)
	require.Greater(t, blocks, 5)
	for _, v := range []view{{width: 1440, height: 900}, {width: 400, height: 800, dark: true}} {
		b.eval(`localStorage.clear()`, nil) // the reader's choice of colours
		for _, page := range []string{"", "tutorial/first-rocm-task/", "explanation/architecture/", "reference/options/"} {
			b.visit(s.URL+"/"+page, v)
			b.keep(fmt.Sprintf("%s-%d", path.Base("index/"+page), v.width))
		}
	}
}

// The pages are of each kind: the index, a tutorial, a guide, wide tables, and pictures. A
// browser lives for two of them, so that a slow machine has time for each.
func TestPagesOfTheSiteAreAccessible(t *testing.T) {
	s, script := newSite(t), axe(t)
	for _, page := range []string{"", "tutorial/own-machine/", "how-to/pass-a-gpu-through/", "reference/metrics/", "explanation/gpu-health/"} {
		for _, width := range []int{1440, 400} {
			name := fmt.Sprintf("%s-%d", path.Base("index/"+page), width)
			t.Run(name, func(t *testing.T) {
				b := newBrowser(t)
				for _, dark := range []bool{false, true} {
					b.visit(s.URL+"/"+page, view{width: width, height: 900, dark: dark})
					require.Empty(t, b.hinders(script), "dark: %t", dark)
					b.keep(fmt.Sprintf("axe-%s-%t", name, dark))
				}
			})
		}
	}
}

// click presses the mouse in the middle of an element.
func (b *browser) click(element string) {
	b.t.Helper()
	var at struct{ X, Y float64 }
	b.eval(`(() => { const r = `+element+`.getBoundingClientRect(); return { X: r.x + r.width / 2, Y: r.y + r.height / 2 } })()`, &at)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.ask("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
}

// keep writes what the screen shows into the folder $PICTURES, if it is set.
func (b *browser) keep(name string) {
	b.t.Helper()
	if folder := os.Getenv("PICTURES"); folder != "" {
		var shot struct{ Data []byte }
		b.ask("Page.captureScreenshot", nil, &shot)
		require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), shot.Data, 0o644))
	}
}
