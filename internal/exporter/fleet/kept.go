package fleet

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
)

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
