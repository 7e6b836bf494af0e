package exporter

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"sync"

	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/gpu/health"
)

// The page is one document with its script and style. It fetches only itself again, and the
// script takes the GPUs from that.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

// page holds the parts that all answers share.
type page struct {
	text   *template.Template
	policy string
}

func newPage() page {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return page{
		text: template.Must(template.New("page").Parse(pageHTML)), // embedded: tests have parsed it
		policy: "default-src 'none'; script-src " + hash(pageJS) + "; style-src " + hash(pageCSS) +
			"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

// denseFrom is the number of GPUs from which each GPU is a line that unfolds. A partition
// counts as a GPU.
const denseFrom = 9

// Page serves reports as a page for people. Without the script it shows the GPUs at the
// time of the request; the script updates it.
func Page(report func() api.Report) http.Handler {
	common := sync.OnceValue(newPage) // made on the first request, because most exporters serve only metrics
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := report()
		gpus := gpusOfPage(r)
		view := struct {
			Style                   template.CSS
			Script                  template.JS
			Title, Heading, Summary string
			Time, Version           string
			Dense                   bool
			GPUs                    []shownGPU
		}{Style: template.CSS(pageCSS), Script: template.JS(pageJS), Heading: api.Heading(r), Summary: api.Summary(r),
			Time: r.Time.Format("15:04:05 UTC"), Version: r.Version, Dense: len(r.GPUs) >= denseFrom, GPUs: gpus}
		view.Title = view.Heading
		critical := 0
		for _, g := range gpus {
			if g.State == health.Critical {
				critical++
			}
		}
		if critical > 0 {
			view.Title = fmt.Sprintf("(%d critical) %s", critical, view.Heading)
		}
		var text bytes.Buffer
		if err := common().text.Execute(&text, view); err != nil {
			http.Error(w, "cannot write the page: "+err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", common().policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		text.WriteTo(w)
	})
}
