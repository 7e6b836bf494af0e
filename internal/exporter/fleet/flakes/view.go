package flakes

import (
	"fmt"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
)

// view holds the texts of the page.
type view struct {
	flakereport.Report
	Style, Clock, Query string
	Filtered            bool
	Kinds               []choice
	Numbers             []number
	Rows                []row
	PlaceRows           []placeRow
	LostRows            []lostRow
}

type choice struct {
	Value, Text string
	Chosen      bool
}

// number is one of the sums at the top.
type number struct{ Value, Label, Kind string }

// link leads to the page of a build, if URL is set.
type link struct{ Name, URL string }

type row struct {
	flakereport.Flake
	Class, Fails, Percent, SinceText, LastText, Chance string
	Links                                              []link
}

type placeRow struct {
	flakereport.Place
	Chance string
}

type lostRow struct {
	flakereport.Lost
	Link  link
	Ended string
}

// fails has the texts of kinds.
var fails = map[flake.Kind]string{
	flake.KindTest: "anywhere", flake.KindGPU: "on a GPU", flake.KindWorker: "on a worker",
}

// filter holds the query of the page.
type filter struct {
	text string
	kind flake.Kind // "": all
}

// matches reports whether one of the texts has the text of the filter.
func (f filter) matches(texts ...string) bool {
	return strings.Contains(strings.ToLower(strings.Join(texts, " ")), strings.ToLower(f.text))
}

func key(k flake.Key) string {
	return k.Team + ": " + k.Pipeline + "/" + k.Job + " " + k.Step + " " + k.Test
}

// viewOf returns the page of a report with a filter.
func viewOf(r flakereport.Report, f filter, style string, now time.Time) view {
	v := view{Report: r, Style: style, Clock: r.Time.Format("15:04:05 UTC"), Query: f.text,
		Filtered: f.text != "" || f.kind != ""}
	v.Kinds = []choice{{Text: "all", Chosen: f.kind == ""}}
	for _, k := range []flake.Kind{flake.KindTest, flake.KindGPU, flake.KindWorker} {
		v.Kinds = append(v.Kinds, choice{string(k), fails[k], f.kind == k})
	}
	lostKind := ""
	if len(r.Lost) > 0 {
		lostKind = "warning"
	}
	v.Numbers = []number{{fmt.Sprint(len(r.Flakes)), "flaky tasks and tests", ""},
		{fmt.Sprint(len(r.Lost)), "runs failed by infrastructure", lostKind},
		{fmt.Sprint(r.Builds), "builds", ""}, {fmt.Sprint(r.Unread), "builds to be read", ""}}
	for _, one := range r.Flakes {
		if (f.kind == "" || f.kind == one.Kind) && f.matches(key(one.Key), one.Sentence) {
			v.Rows = append(v.Rows, v.row(one, now))
		}
	}
	for _, p := range r.Places {
		if f.kind != flake.KindTest && f.matches(p.Sentence) {
			v.PlaceRows = append(v.PlaceRows, placeRow{p, chance(p.Probability)})
		}
	}
	for _, l := range r.Lost {
		if f.matches(key(l.Key), l.Worker, l.Sentence) {
			v.LostRows = append(v.LostRows, lostRow{l, v.link(l.Build), units.Ago(now.Sub(l.Time))})
		}
	}
	return v
}

func (v view) row(f flakereport.Flake, now time.Time) row {
	out := row{Flake: f, Class: "warning", Fails: "! " + fails[f.Kind], Percent: fmt.Sprintf("%.1f %%", 100*f.Rate),
		SinceText: f.Since.Format("2006-01-02 15:04"), LastText: units.Ago(now.Sub(f.Last))}
	if f.Place != nil {
		out.Class, out.Fails, out.Chance = "critical", "✕ "+fails[f.Kind], "by accident: "+chance(f.Place.Probability)
	}
	for _, b := range f.Builds {
		out.Links = append(out.Links, v.link(b))
	}
	return out
}

func (v view) link(b flake.Build) link {
	l := link{Name: b.Name}
	if v.Concourse != "" {
		l.URL = fmt.Sprintf("%s/builds/%d", strings.TrimRight(v.Concourse, "/"), b.ID)
	}
	return l
}

// chance returns a probability for people.
func chance(p float64) string {
	if p < 1e-6 {
		return "less than 1 in a million"
	}
	return fmt.Sprintf("1 in %.0f", 1/p)
}
