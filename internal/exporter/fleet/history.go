package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

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
