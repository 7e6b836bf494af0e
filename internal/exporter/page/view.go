package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

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
