package flakes

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
)

var (
	//go:embed page/flakes.html
	pageHTML string
	//go:embed schema.json
	schema []byte
)

// policy allows the program's own style and the form of the filter. The page has no script.
const policy = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; " +
	"frame-ancestors 'none'"

const (
	// atOnce bounds the memory of concurrent requests.
	atOnce = 4
	// maxQuery bounds the text of the filter.
	maxQuery = 200
)

// handle adds the page, the JSON and its schema.
func (f *Flakes) handle(mux *http.ServeMux) {
	limited := metricsserver.NewLimited(atOnce)
	mux.Handle("GET /flakes", limited.Wrap(Page(f.Report, f.o.Style, f.o.Now)))
	mux.Handle("GET /api/v1/flakes", limited.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, f.Report())
	})))
	mux.HandleFunc("GET /api/v1/flakes/schema", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		w.Write(schema)
	})
	mux.Handle("GET /api/v1/flakes/build-of/{handle}", limited.Wrap(http.HandlerFunc(f.buildOf)))
}

// Page serves reports as a page for people, with a filter in the query. It needs no script.
// style is the relative URL of the style sheet.
func Page(report func() *flakereport.Report, style string, now func() time.Time) http.Handler {
	text := template.Must(template.New("page").Parse(pageHTML)) // embedded: tests have parsed it
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		by := filter{text: q.Get("q"), kind: flake.Kind(q.Get("kind"))}
		if by.text = by.text[:min(len(by.text), maxQuery)]; fails[by.kind] == "" {
			by.kind = ""
		}
		var b bytes.Buffer
		if err := text.Execute(&b, viewOf(*report(), by, style, now())); err != nil {
			http.Error(w, "cannot write the page: "+err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		w.Write(b.Bytes())
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot write the flakes: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(text, '\n'))
}

// Answer is the answer of /api/v1/flakes/build-of/HANDLE. It has no names, because a task of
// any team may ask.
type Answer struct {
	Infrastructure bool   `json:"infrastructure"` // a task of the build failed, and none by itself
	Sentence       string `json:"sentence"`       // for a comment; "" without infrastructure
}

// buildOf answers a later task of a build, such as the one that comments a pull request: did
// infrastructure fail the tasks before it? A task knows its container's handle, which is its
// host name, and not its build.
func (f *Flakes) buildOf(w http.ResponseWriter, r *http.Request) {
	handle := r.PathValue("handle")
	if !wellknown.IsHandle(handle) {
		http.Error(w, "cannot find the build: the host name of a task is a UUID", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	a, known := f.verdicts[handle]
	f.mu.Unlock()
	if !known {
		http.Error(w, fmt.Sprintf("cannot find the build of %s yet: try again in %s", handle, f.o.Every),
			http.StatusNotFound)
		return
	}
	writeJSON(w, a)
}
