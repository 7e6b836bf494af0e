package exporter

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"concourse-ci-machine/internal/exporter/health"
)

// The page is one document: its script and style are within it, and with them
// nothing is fetched but /api/v1/gpus.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

// page shows the GPUs to people. Without the script it is a table of the moment
// it was asked for; the script makes it live.
type page struct {
	text   *template.Template
	policy string
}

// newPage is for the first who asks: most exporters are asked for metrics alone.
func newPage() *page {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return &page{
		text: template.Must(template.New("page").Parse(pageHTML)), // embedded: tests have parsed it
		policy: "default-src 'none'; script-src " + hash(pageJS) + "; style-src " + hash(pageCSS) +
			"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

// shownGPU is a row of the table.
type shownGPU struct {
	Title, Where string
	State        health.State
	Health       string
	Reason       string
	Explained    []Explanation
	Bars         []bar
}

// bar is a reading: in words, and where the most it can be is known, drawn.
type bar struct {
	Label, Text string
	Value, Max  float64
}

func (s *scrapes) page(w http.ResponseWriter, _ *http.Request, b []byte) (string, []byte) {
	report := s.collector.Report()
	all := report.GPUs
	slices.SortStableFunc(all, func(a, b Status) int { return cmp.Compare(place(a), place(b)) })
	view := struct {
		Style                   template.CSS
		Script                  template.JS
		Title, Heading, Summary string
		Time, Version           string
		Command                 string // explains an error's code, which follows
		GPUs                    []shownGPU
	}{Style: template.CSS(pageCSS), Script: template.JS(pageJS), Heading: heading(report), Summary: summary(all),
		Time: report.Time.Format("15:04:05 UTC"), Version: report.Version, Command: "dispatch explain "}
	view.Title = view.Heading
	if report.Unit != "" {
		view.Command = "juju run " + report.Unit + " explain-error code="
	}
	critical := 0
	for _, st := range all {
		view.GPUs = append(view.GPUs, shownOf(st))
		if place(st) == 0 {
			critical++
		}
	}
	if critical > 0 {
		view.Title = fmt.Sprintf("(%d critical) %s", critical, view.Heading)
	}
	people := s.people()
	text := bytes.NewBuffer(b)
	if err := people.text.Execute(text, view); err != nil {
		http.Error(w, "cannot write the page: "+err.Error(), http.StatusInternalServerError)
		return "", b
	}
	h := w.Header()
	h.Set("Content-Security-Policy", people.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	return "text/html; charset=utf-8", text.Bytes()
}

func shownOf(s Status) shownGPU {
	state := s.Health.State
	if state == "" {
		state = health.Unknown
	}
	g := shownGPU{Title: fmt.Sprintf("GPU %d: %s", s.Index, s.Name), Where: s.PCI, State: state, Health: string(state),
		Reason: s.Health.Reason, Explained: s.Explained}
	if s.GFX != "" {
		g.Where += ", " + s.GFX
	}
	if s.Partition > 0 {
		g.Where += fmt.Sprintf(", partition %d", s.Partition)
	}
	if s.Health.Score != nil {
		g.Health += fmt.Sprintf(", %.0f of 100", *s.Health.Score)
	}
	const gib = 1 << 30
	g.Bars = []bar{
		newBar(s, "Temperature", "%.0f °C", 1, s.Temperature, s.TemperatureLimit),
		newBar(s, "Power", "%.0f W", 1, s.Power, s.PowerCap),
		newBar(s, "Memory", "%.1f GiB", gib, s.MemoryUsed, s.MemoryTotal),
		newBar(s, "Activity", "%.0f %%", .01, s.Activity, nil),
	}
	if s.Activity != nil { // of 100 % goes without saying
		g.Bars[3].Value, g.Bars[3].Max = *s.Activity, 1
	}
	if s.Sensor != "" {
		g.Bars[0].Text += " (" + s.Sensor + ")"
	}
	return g
}

// states are in the order of the page: what wants looking at comes first.
var states = []health.State{health.Critical, health.Warning, health.Unknown, health.Healthy}

// place is the GPU's among these.
func place(s Status) int { return slices.Index(states, shownOf(s).State) }

// heading says whose GPUs these are.
func heading(r Report) string {
	switch {
	case r.Unit != "":
		return "GPUs of " + r.Unit + " on " + cmp.Or(r.Host, "a host without a name")
	case r.Host != "":
		return "GPUs of " + r.Host
	}
	return "GPUs"
}

// newBar tells value of limit, each divided by per.
func newBar(s Status, label, format string, per float64, value, limit *float64) bar {
	b := bar{Label: label, Text: "not known"}
	switch {
	case value == nil && s.Suspended:
		b.Text = "asleep"
	case value == nil && s.Partition > 0:
		b.Text = "with the first partition"
	case value != nil:
		b.Text = fmt.Sprintf(format, *value/per)
		if limit != nil && *limit > 0 {
			b.Value, b.Max = *value, *limit
			b.Text += " of " + fmt.Sprintf(format, *limit/per)
		}
	}
	return b
}

// summary counts the GPUs by state, the worst first.
func summary(all []Status) string {
	if len(all) == 0 {
		return "No GPU"
	}
	counts := map[health.State]int{}
	for _, s := range all {
		counts[shownOf(s).State]++
	}
	var parts []string
	for _, state := range states {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	word := "GPUs"
	if len(all) == 1 {
		word = "GPU"
	}
	return fmt.Sprintf("%d %s: %s", len(all), word, strings.Join(parts, ", "))
}
