package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// view holds the texts of the page.
type view struct {
	Report
	Title, Heading, Clock string
	Jobs                  []job
	Numbers               []number
	Strip                 []shownWorker
	WithoutGPUs           string
	Broken                []broken
	Waits                 []shownWaiting
	Uses                  []shownUse
	Many                  bool // uses, so that the table is folded
	Covered               []shownArch
	Named                 bool // teams have names
	Started               string
	Charts                []chart
	Hours                 []hour
	Flakes                bool // the page of flakes is on
}

// number is one of the sums at the top.
type number struct{ Value, Label, Kind string }

// shownWorker describes a worker of the strip.
type shownWorker struct {
	Name, URL string
	Away      string // why and since when it does not answer
	Tiles     []tile
}

// tile describes a GPU of the strip. Its colour shows the health, and a filled tile is in
// use.
type tile struct {
	URL, Class, Mark, Text string
}

// broken describes a worker or a GPU that tasks cannot use.
type broken struct {
	Name, URL, Class, Mark, State, Since, Reason string
}

// shownUse describes a task, or another container, with all its GPUs.
type shownUse struct {
	Holder
	Where []place
	Since string
	since time.Time
}

type place struct{ Text, URL string }

// shownWaiting describes waiting tasks, with the first of their builds.
type shownWaiting struct {
	Waiting
	For  string
	More int
}

// shownArch describes the coverage of an architecture.
type shownArch struct {
	Covered
	Class, Mark, State string
}

// chart describes a chart of the last 24 hours.
type chart struct {
	ID, Title, Range, Unit string
	Max                    float64 // 0: as high as the values
	Data                   string  // JSON for the script
}

// hour describes a row of the table with the last 24 hours.
type hour struct{ Time, Load, Free, Waiting string }

// manyUses is the number of tasks from which their table is folded.
const manyUses = 24

func viewOf(r Report, now time.Time) view {
	v := view{Report: r, Flakes: r.flakes, Heading: "GPU fleet", Clock: r.Time.Format("15:04:05 UTC"),
		Started: r.Today.Since.Format("15:04 UTC")}
	if u, err := url.Parse(r.Concourse.URL); err == nil && u.Host != "" {
		v.Heading += " of " + u.Host
	}
	if v.Title = v.Heading; r.Summary.Critical > 0 {
		v.Title = fmt.Sprintf("(%d critical) %s", r.Summary.Critical, v.Heading)
	}
	for _, s := range r.Starts {
		v.Jobs = append(v.Jobs, jobOf(s))
	}
	v.Numbers = numbersOf(r.Summary)
	uses := map[string]*shownUse{}
	var plain []string
	for _, w := range r.Workers {
		if len(w.GPUs) == 0 {
			plain = append(plain, workerName(w))
		}
		v.addWorker(w, now, uses)
	}
	if len(plain) > 0 {
		v.WithoutGPUs = units.Count(len(plain), "worker") + " without GPUs: " + listed(plain)
	}
	for _, u := range uses {
		u.Since = age(u.since, now)
		v.Uses = append(v.Uses, *u)
	}
	slices.SortFunc(v.Uses, func(a, b shownUse) int {
		return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.Pipeline, b.Pipeline), cmp.Compare(a.Job, b.Job),
			a.since.Compare(b.since), cmp.Compare(a.Container, b.Container))
	})
	v.Many = len(v.Uses) >= manyUses
	for _, w := range r.Waiting {
		one := shownWaiting{Waiting: w, More: max(0, len(w.Builds)-maxListed)}
		if one.Builds = w.Builds[:len(w.Builds)-one.More]; w.Since != nil {
			one.For = age(*w.Since, now)
		}
		v.Waits = append(v.Waits, one)
	}
	for _, c := range r.Coverage {
		v.Covered = append(v.Covered, archOf(c))
	}
	for _, t := range r.Today.Teams {
		v.Named = v.Named || t.Team != ""
	}
	v.Charts, v.Hours = chartsOf(r.History, float64(r.Summary.GPUs)), hoursOf(r.History)
	return v
}

func workerName(w Worker) string { return cmp.Or(w.Unit, w.Worker) }

func numbersOf(s Summary) []number {
	count := func(n int, label, kind string) number {
		if n == 0 {
			kind = ""
		}
		return number{fmt.Sprint(n), label, kind}
	}
	things := func(n int, thing string) string {
		_, label, _ := strings.Cut(units.Count(n, thing), " ")
		return label
	}
	waiting := number{"?", "tasks waiting", ""}
	if s.Waiting != nil {
		waiting = count(*s.Waiting, things(*s.Waiting, "task")+" waiting", string(health.Warning))
	}
	load, watts := fmt.Sprintf("%.0f %%", 100*s.Load), power(s.Power)
	if s.measured == 0 {
		load = "–"
	}
	if s.powered == 0 {
		watts = "–"
	}
	out := []number{
		count(s.GPUs, things(s.GPUs, "GPU"), ""),
		count(s.Free, "free", string(health.Healthy)), count(s.Busy, "in use", ""),
		count(s.Quarantined, "quarantined", string(health.Critical))}
	if s.OnProbation > 0 {
		out = append(out, count(s.OnProbation, "on probation", string(health.Warning)))
	}
	if s.Unknown > 0 {
		out = append(out, count(s.Unknown, "unknown", ""))
	}
	out = append(out, waiting, number{load, "load", ""}, number{watts, "power", ""},
		count(s.Workers, things(s.Workers, "worker"), ""))
	if s.Away > 0 {
		out = append(out, count(s.Away, "not answering", string(health.Critical)))
	}
	return out
}

func power(watts float64) string {
	if watts >= 10_000 {
		return fmt.Sprintf("%.1f kW", watts/1000)
	}
	return fmt.Sprintf("%.0f W", watts)
}

// age returns "12m", or "" for an unknown time.
func age(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return units.Age(now.Sub(since))
}

// addWorker adds a worker to the strip, the broken ones and the uses.
func (v *view) addWorker(w Worker, now time.Time, uses map[string]*shownUse) {
	s := shownWorker{Name: workerName(w), URL: w.URL}
	if w.State != "" && w.State != "running" {
		v.Broken = append(v.Broken, broken{Name: s.Name, URL: w.URL, Class: string(health.Warning), Mark: "!",
			State: w.State, Reason: "in Concourse, so it gets no tasks"})
	}
	if !w.Answered && len(w.GPUs) > 0 {
		since := "never"
		if w.Time != nil {
			since = age(*w.Time, now)
		}
		s.Away = strings.TrimSuffix("silent "+since, " never")
		v.Broken = append(v.Broken, broken{Name: s.Name, URL: w.URL, Class: string(health.Critical), Mark: "✕",
			State: "does not answer", Since: since, Reason: w.Problem})
	}
	for _, g := range w.GPUs {
		where := place{fmt.Sprintf("%s GPU %d", s.Name, g.Index), ""}
		if w.URL != "" {
			if where.URL = w.URL + "/"; g.PCI != "" {
				where.URL += "#gpu-" + g.PCI
			}
		}
		s.Tiles = append(s.Tiles, tileOf(w, g, where, now))
		if b, ok := brokenOf(g, where, now); ok {
			v.Broken = append(v.Broken, b)
		}
		for _, h := range g.Holders {
			u := uses[h.Container]
			if u == nil {
				u = &shownUse{Holder: h}
				uses[h.Container] = u
			}
			u.Where = append(u.Where, where)
			if l := g.Lease; l != nil && l.Since != nil && (u.since.IsZero() || l.Since.Before(u.since)) {
				u.since = *l.Since
			}
		}
	}
	if len(s.Tiles) > 0 {
		v.Strip = append(v.Strip, s)
	}
}

// tileOf returns the tile of a GPU. The mark repeats the colour for readers who do not see
// it.
func tileOf(w Worker, g GPU, where place, now time.Time) tile {
	t := tile{URL: where.URL, Class: string(g.Health) + " " + string(g.Use)}
	text := []string{where.Text}
	if !w.Answered {
		t.Class, t.Mark = "away", "?"
		t.Text = where.Text + ": its worker does not answer"
		return t
	}
	marks := map[health.State]string{health.Critical: "✕", health.Warning: "!", health.Unknown: "?"}
	switch t.Mark = marks[g.Health]; g.Use {
	case Quarantined:
		t.Mark = "⊘"
	case OnProbation:
		t.Mark = "↻"
	}
	state := string(g.Health) + ", " + strings.ReplaceAll(string(g.Use), "_", " ")
	for _, h := range g.Holders {
		state += " by " + holderText(h)
		break
	}
	if g.Excluded() {
		state += " for " + age(g.Service.Since, now)
	}
	if g.Activity != nil {
		state += fmt.Sprintf(", %.0f %% busy", 100**g.Activity)
	}
	t.Text = strings.Join(append(text, state), ": ")
	return t
}

// holderText names a holder in one line.
func holderText(h Holder) string {
	parts := []string{h.Team, h.Pipeline, h.Job}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	if len(parts) == 0 {
		return cmp.Or(h.Title, h.Container, "unknown")
	}
	text := strings.Join(parts, "/")
	if h.Build != "" {
		text += " #" + h.Build
	}
	return text
}

// brokenOf describes a GPU that tasks do not get, or that is critical.
func brokenOf(g GPU, where place, now time.Time) (b broken, ok bool) {
	b = broken{Name: where.Text, URL: where.URL}
	switch {
	case g.Excluded():
		b.Class, b.Mark, b.State = string(health.Critical), "⊘", "quarantined"
		if g.Service.State == quarantine.OnProbation {
			b.Class, b.Mark, b.State = string(health.Warning), "↻", "on probation"
		}
		if b.Reason = g.Service.Why; g.Service.By == quarantine.ByHand {
			b.Reason = "by hand: " + b.Reason
		}
		b.Since = age(g.Service.Since, now)
	case g.Health == health.Critical:
		b.Class, b.Mark, b.State, b.Reason = string(health.Critical), "✕", "critical", g.Reason
	case g.Health == health.Warning:
		b.Class, b.Mark, b.State, b.Reason = string(health.Warning), "!", "warning", g.Reason
	default:
		return b, false
	}
	return b, true
}

func archOf(c Covered) shownArch {
	a := shownArch{Covered: c, Class: string(health.Healthy), Mark: "✓", State: "a worker has it"}
	switch {
	case c.Required && c.GPUs == 0:
		a.Class, a.Mark, a.State = string(health.Critical), "✕", "no worker has it"
	case c.Quarantined == c.GPUs:
		a.Class, a.Mark, a.State = string(health.Critical), "⊘", "all quarantined or on probation"
	}
	return a
}

// chartsOf returns the charts of the page. Their values are thousandths at most, as in the
// API.
func chartsOf(h History, gpus float64) (out []chart) {
	for _, c := range []struct {
		chart
		values []*float64
		per    float64
	}{
		{chart{ID: "load", Title: "Load of all GPUs", Unit: "%", Max: 100}, h.Load, .01},
		{chart{ID: "free", Title: "Free GPUs", Max: gpus}, h.Free, 1},
		{chart{ID: "waiting", Title: "Tasks that wait"}, h.Waiting, 1},
	} {
		least, most := math.Inf(1), math.Inf(-1)
		values := make([]*float64, len(c.values))
		for i, v := range c.values {
			if v != nil {
				shown := round(*v/c.per, 10)
				values[i] = &shown
				least, most = min(least, shown), max(most, shown)
			}
		}
		if c.Range = "no values yet"; most >= least {
			c.Range = strings.TrimSpace(fmt.Sprintf("%.4g to %.4g %s", least, most, c.Unit))
		}
		if most < least {
			out = append(out, c.chart)
			continue
		}
		data, _ := json.Marshal(map[string]any{"last": h.Last.Unix(), "every": h.Interval, "values": values,
			"max": c.Max, "unit": c.Unit, "title": c.Title}) // numbers and text only
		c.Data = string(data)
		out = append(out, c.chart)
	}
	return out
}

// hoursOf returns the averages of the last 24 hours, the newest first. Hours without values
// are left out.
func hoursOf(h History) (out []hour) {
	per := int(time.Hour / bucket)
	for end := len(h.Load); end >= per; end -= per {
		row := hour{Load: "–", Free: "–", Waiting: "–"}
		found := false
		for _, c := range []struct {
			values []*float64
			format string
			per    float64
			to     *string
		}{{h.Load, "%.0f %%", .01, &row.Load}, {h.Free, "%.1f", 1, &row.Free}, {h.Waiting, "%.1f", 1, &row.Waiting}} {
			sum, n := 0.0, 0
			for _, v := range c.values[end-per : end] {
				if v != nil {
					sum, n = sum+*v, n+1
				}
			}
			if n > 0 {
				*c.to, found = fmt.Sprintf(c.format, sum/float64(n)/c.per), true
			}
		}
		if found {
			from := h.Last.Add(-time.Duration(len(h.Load)-1-(end-per)) * bucket)
			row.Time = from.Format("15:04")
			out = append(out, row)
		}
	}
	return out
}
