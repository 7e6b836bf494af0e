// Package page shows a report of GPUs as a page for people. The server renders the whole
// page, so it works without JavaScript; the script only updates it and adds hints. The page
// fetches only itself, and the package reads no GPU.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

//go:embed *.html *.css *.js
var files embed.FS

// read returns the content of embedded files as one text.
func read(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err) // a file is missing from the program itself
		}
		b.Write(data)
	}
	return b.String()
}

// common holds the parts that all answers share.
type common struct {
	text          *template.Template
	style, script string
	policy        string
}

func newCommon() common {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	c := common{
		text:   template.Must(template.New("").Funcs(functions).ParseFS(files, "*.html")), // tests have parsed it
		style:  read("page.css", "card.css", "table.css"),
		script: read("live.js", "filter.js", "chart.js"),
	}
	c.policy = "default-src 'none'; script-src " + hash(c.script) + "; style-src " + hash(c.style) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return c
}

// functions has the functions of the templates. args gives a card's template its page.
var functions = template.FuncMap{"args": func(v view, g card) any {
	return struct {
		View view
		GPU  card
	}{v, g}
}}

// Handler serves reports as the page. The parameter show of the request selects the GPUs of
// one state, see filters.
func Handler(report func() api.Report, links Links) http.Handler {
	shared := sync.OnceValue(newCommon) // made on the first request, because most exporters serve only metrics
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c := shared()
		v := newView(report(), links, req.URL.Query().Get("show"))
		v.Style, v.Script = template.CSS(c.style), template.JS(c.script)
		c.write(w, "frame.html", v)
	})
}

// write writes a page with its header.
func (c common) write(w http.ResponseWriter, page string, view any) {
	var text bytes.Buffer
	if err := c.text.ExecuteTemplate(&text, page, view); err != nil {
		http.Error(w, "cannot write the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", c.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	text.WriteTo(w)
}

// view holds the data of the templates.
type view struct {
	Style          template.CSS
	Script         template.JS
	Title, Heading string
	Read           time.Time
	Version        string
	Links          Links
	Layout         layout
	Totals         []total
	GPUs           []card
	None           string // why no GPU is shown
	Axis           axis
}

// layout is the arrangement of the GPUs, a class of the page.
type layout string

// Layouts, by the number of GPUs.
const (
	one   layout = "one"   // fills the window
	few   layout = "few"   // up to fewMost wide cards
	many  layout = "many"  // up to manyMost small cards, on one screen
	dense layout = "dense" // a table with lines that unfold
)

const (
	fewMost  = 4
	manyMost = 8
)

// layoutOf returns the layout. A divided GPU is one card with a line for each partition,
// so several of them need a table.
func layoutOf(gpus, partitions int) layout {
	switch {
	case gpus <= 1:
		return one
	case partitions > manyMost:
		return dense
	case gpus <= fewMost:
		return few
	}
	return many
}

// Dense reports whether each GPU is a line.
func (v view) Dense() bool { return v.Layout == dense }

// Whole reports whether cards show everything unfolded.
func (v view) Whole() bool { return v.Layout == one }

// Unfolded reports whether the details of cards are open at first.
func (v view) Unfolded() bool { return v.Layout == few && len(v.GPUs) <= 2 }

func newView(r api.Report, links Links, show string) view {
	all := api.GroupByGPU(r.GPUs)
	v := view{Heading: api.Heading(r), Read: r.Time, Version: r.Version, Links: links,
		Layout: layoutOf(len(all), len(r.GPUs)), Axis: axisOf(r.GPUs)}
	v.Title = v.Heading
	if n := count(headsOf(all), states[health.Critical]); n > 0 {
		v.Title = fmt.Sprintf("(%d critical) %s", n, v.Heading)
	}
	shown, current := filter(all, show)
	v.Totals = totalsOf(all, current)
	for _, partitions := range shown {
		v.GPUs = append(v.GPUs, newCard(r, partitions, links))
	}
	switch {
	case len(all) == 0:
		v.None = "The exporter finds no GPU that it can read."
	case len(shown) == 0:
		v.None = "No GPU is " + current + " now."
	}
	slices.SortStableFunc(v.GPUs, func(a, b card) int {
		return cmp.Or(cmp.Compare(slices.Index(api.States, a.State), slices.Index(api.States, b.State)),
			cmp.Compare(a.Excluded.rank(), b.Excluded.rank()))
	})
	return v
}
