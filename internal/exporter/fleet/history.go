package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

const (
	// bucket is the distance of two points of the history.
	bucket = 5 * time.Minute
	points = int(24 * time.Hour / bucket)
)

// series are the histories of the page.
const (
	loadSeries = iota
	gpuSeries
	freeSeries
	waitingSeries
	allSeries
)

// history holds the averages of the last 24 hours. Its size is fixed.
type history struct {
	sums   [points][allSeries]float64
	counts [points][allSeries]int32
	last   int64 // number of the current bucket since 1970; 0: none
}

// add adds a value of each series. NaN is unknown.
func (h *history) add(at time.Time, values [allSeries]float64) {
	n := at.Unix() / int64(bucket/time.Second)
	switch {
	case n < h.last: // the clock was set back
		*h = history{}
	case h.last > 0:
		for i := max(h.last+1, n-int64(points)+1); i <= n; i++ {
			h.sums[i%int64(points)], h.counts[i%int64(points)] = [allSeries]float64{}, [allSeries]int32{}
		}
	}
	h.last = n
	slot := n % int64(points)
	for i, v := range values {
		if !math.IsNaN(v) {
			h.sums[slot][i] += v
			h.counts[slot][i]++
		}
	}
}

// report returns the history up to the current bucket.
func (h *history) report() History {
	out := History{Interval: bucket.Seconds(), Last: time.Unix(h.last*int64(bucket/time.Second), 0).UTC()}
	all := [allSeries]*[]*float64{&out.Load, &out.GPUs, &out.Free, &out.Waiting}
	for s, to := range all {
		*to = make([]*float64, points)
		for i := range points {
			n := h.last - int64(points) + 1 + int64(i)
			if n < 0 {
				continue
			}
			if count := h.counts[n%int64(points)][s]; count > 0 {
				(*to)[i] = new(math.Round(h.sums[n%int64(points)][s]/float64(count)*1000) / 1000)
			}
		}
	}
	return out
}

// maxTeams bounds the teams of a day. Further teams are added to unknown ones.
const maxTeams = 500

// day holds the usage of one day by team.
type day struct {
	since time.Time
	teams map[string]amount
}

type amount struct{ seconds, joules float64 }

// start begins another day if now is in one.
func (d *day) start(now time.Time) {
	if d.teams == nil || now.UTC().YearDay() != d.since.YearDay() || now.Before(d.since) {
		d.since, d.teams = now.UTC(), map[string]amount{}
	}
}

// add adds the usage of a time in which gpus had these holders.
func (d *day) add(workers []Worker, took time.Duration) {
	seconds := took.Seconds()
	for _, w := range workers {
		if !w.Answered {
			continue
		}
		for _, g := range w.GPUs {
			for _, h := range g.Holders {
				part := seconds / float64(len(g.Holders))
				team := h.Team
				if _, known := d.teams[team]; !known && len(d.teams) >= maxTeams {
					team = ""
				}
				a := d.teams[team]
				d.teams[team] = amount{a.seconds + part, a.joules + g.watts*part}
			}
		}
	}
}

func (d *day) report() Today {
	out := Today{Since: d.since, Teams: []TeamUsage{}}
	for _, team := range slices.Sorted(maps.Keys(d.teams)) {
		a := d.teams[team]
		out.Teams = append(out.Teams, TeamUsage{Team: team, Hours: round(a.seconds/3600, 1000),
			Energy: round(a.joules/units.JoulesPerKWh, 1000)})
	}
	slices.SortStableFunc(out.Teams, func(a, b TeamUsage) int { return cmp.Compare(b.Hours, a.Hours) })
	return out
}

func round(v, per float64) float64 { return math.Round(v*per) / per }

// keepEvery is the time between two writes of the histories. So a kill loses that time.
const keepEvery = time.Minute

// kept is the file with the histories. Its size is bounded by points and maxTeams.
type kept struct {
	Last   int64                      `json:"last"` // number of the current bucket since 1970
	Sums   [points][allSeries]float64 `json:"sums"`
	Counts [points][allSeries]int32   `json:"counts"`
	Since  time.Time                  `json:"since"` // of the usage
	Teams  map[string]keptAmount      `json:"teams"`
}

type keptAmount struct {
	Seconds float64 `json:"seconds"`
	Joules  float64 `json:"joules"`
}

// valid returns an error for numbers that no history has.
func (k kept) valid() error {
	switch {
	case k.Last < 0 || k.Last > math.MaxInt64/int64(bucket) || !k.Since.IsZero() && !plausible(k.Since):
		return errors.New("it has an impossible time")
	case len(k.Teams) > maxTeams+1:
		return fmt.Errorf("it has more than %d teams", maxTeams)
	}
	for i := range k.Counts {
		for s, n := range k.Counts[i] {
			if sum := k.Sums[i][s]; n < 0 || math.Abs(sum) > maxNumber {
				return errors.New("it has an impossible number")
			}
		}
	}
	for _, a := range k.Teams {
		if !(a.Seconds >= 0 && a.Seconds < maxNumber && a.Joules >= 0 && a.Joules < maxNumber) {
			return errors.New("it has an impossible usage")
		}
	}
	return nil
}

func (f *Fleet) keptFile() statefile.File[kept] {
	return statefile.File[kept]{Path: filepath.Join(f.folder, "history.json"), Mode: 0o600, Valid: kept.valid}
}

// recall reads the histories of the previous run. With a damaged file they begin again.
func (f *Fleet) recall() {
	if f.folder == "" {
		return
	}
	k, err := f.keptFile().Read(host.Root("/"))
	if err != nil {
		f.logs.Printf("the history of the fleet page begins again: %v", err)
		return
	}
	f.history = history{sums: k.Sums, counts: k.Counts, last: k.Last}
	f.day = day{since: k.Since}
	for team, a := range k.Teams {
		if f.day.teams == nil {
			f.day.teams = map[string]amount{}
		}
		f.day.teams[team] = amount{a.Seconds, a.Joules}
	}
}

// saveHistories writes the histories. It logs only the first of equal failures.
func (f *Fleet) saveHistories(now time.Time) {
	if f.folder == "" || f.history.last == 0 {
		return
	}
	f.keptAt = now
	k := kept{Last: f.history.last, Sums: f.history.sums, Counts: f.history.counts, Since: f.day.since,
		Teams: map[string]keptAmount{}}
	for team, a := range f.day.teams {
		k.Teams[team] = keptAmount{a.seconds, a.joules}
	}
	text := ""
	if err := f.keptFile().Write(host.Root("/"), k); err != nil {
		text = fmt.Sprintf("cannot store the history of the fleet page: %v", err)
	}
	if text != f.keepProblem && text != "" {
		f.logs.Print(text)
	}
	f.keepProblem = text
}
