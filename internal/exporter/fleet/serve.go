package fleet

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
)

var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page
	pageFiles embed.FS
	//go:embed schema.json
	schema []byte
)

// policy allows only the program's own scripts and styles, and no other server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// atOnce bounds the memory of concurrent requests.
const atOnce = 4

// assets has the content types of the files that the page loads.
var assets = map[string]string{
	"page.js": "text/javascript", "page.css": "text/css",
	"uPlot.iife.min.js": "text/javascript", "uPlot.min.css": "text/css", "uPlot.LICENSE": "text/plain",
}

// handle adds the page, its files, the API and its schema.
func (f *Fleet) handle(mux *http.ServeMux) {
	limited := metricsserver.NewLimited(atOnce)
	mux.Handle("GET /{$}", limited.Wrap(Page(f.Report, f.now)))
	kind := http.Header{"Content-Type": {"application/json"}}
	mux.Handle("GET /api/v1/fleet", limited.Wrap(rendered(f.Report, jsonOf, kind)))
	mux.HandleFunc("GET /api/v1/fleet/schema", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		w.Write(schema)
	})
	mux.Handle("GET /assets/{name}", Assets())
	mux.HandleFunc("GET /builds/{handle}", f.toBuild)
}

// toBuild redirects a container handle to its build's page.
func (f *Fleet) toBuild(w http.ResponseWriter, r *http.Request) {
	build, known := f.site().Builds[r.PathValue("handle")]
	concourse := f.Report().Concourse.URL
	if !known || build.ID <= 0 || concourse == "" {
		http.Error(w, "Concourse no longer lists this container, so its build is unknown.", http.StatusNotFound)
		return
	}
	http.Redirect(w, r, buildURL(concourse, build.ID), http.StatusFound)
}

// buildURL returns the address of Concourse's page of a build.
func buildURL(concourse string, id int) string {
	return fmt.Sprintf("%s/builds/%d", strings.TrimRight(concourse, "/"), id)
}

// Assets serves the files of the page. A file with its hash in the query never changes.
func Assets() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		kind, known := assets[name]
		if !known {
			http.NotFound(w, r)
			return
		}
		data, _ := pageFiles.ReadFile("page/" + name) // embedded: a test reads all of them
		h := w.Header()
		h.Set("Content-Type", kind+"; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		if h.Set("Cache-Control", "no-cache"); r.URL.RawQuery == hashOf(data) {
			h.Set("Cache-Control", "max-age=31536000, immutable")
		}
		w.Write(data)
	})
}

// hashOf returns a short hash for URLs.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// asset returns the relative URL of a file of the page. A reverse proxy may add a path.
func asset(name string) (string, error) {
	data, err := pageFiles.ReadFile("page/" + name)
	return "assets/" + name + "?" + hashOf(data), err
}

// Page serves reports as a page for people. It needs no script; the script updates it and
// draws the charts.
func Page(report func() *Report, now func() time.Time) http.Handler {
	functions := template.FuncMap{"asset": asset}
	text := template.Must(template.New("page").Funcs(functions).Parse(pageHTML)) // embedded: tests have parsed it
	render := func(r *Report) ([]byte, error) {
		var b bytes.Buffer
		err := text.Execute(&b, viewOf(*r, now()))
		return b.Bytes(), err
	}
	return rendered(report, render, http.Header{
		"Content-Type": {"text/html; charset=utf-8"}, "Content-Security-Policy": {policy},
		"X-Content-Type-Options": {"nosniff"}, "Referrer-Policy": {"no-referrer"}, "Cache-Control": {"no-store"},
	})
}

func jsonOf(r *Report) ([]byte, error) {
	text, err := json.Marshal(r)
	return append(text, '\n'), err
}

// rendered serves reports as render writes them. Each report is rendered at most once, and
// only on request.
func rendered(report func() *Report, render func(*Report) ([]byte, error), header http.Header) http.Handler {
	var mu sync.Mutex
	var last *Report
	var text []byte
	current := func() ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		r := report()
		if r == last {
			return text, nil
		}
		fresh, err := render(r)
		if err == nil {
			last, text = r, fresh
		}
		return fresh, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		data, err := current()
		if err != nil {
			http.Error(w, "cannot write the fleet: "+err.Error(), http.StatusInternalServerError)
			return
		}
		maps.Copy(w.Header(), header)
		w.Write(data)
	})
}
