package baseline

import (
	"fmt"
	"math"
)

// Outcome is what became of the search for one example.
type Outcome string

const (
	FoundOne    Outcome = "found"        // one commit
	FoundRange  Outcome = "range"        // one of several, which can't be told apart
	NotWorse    Outcome = "not worse"    // at the end within the limits
	NotMeasured Outcome = "not measured" // at one of the ends
)

// Found is the answer for one example.
type Found struct {
	Name       string   `json:"name"`
	Result     Outcome  `json:"result"`
	Culprits   []Commit `json:"culprits"` // oldest first
	Confidence *Percent `json:"confidence_pct"`
	NoisePct   Percent  `json:"noise_pct"` // of durations
	Points     []Point  `json:"measured"`  // oldest first
	Notes      []string `json:"notes"`
}

// Point is what was measured of one commit: the means of its runs.
type Point struct {
	Commit
	Runs       int     `json:"runs"`
	Worse      bool    `json:"worse"`
	Confidence Percent `json:"confidence_pct"`
	Row        `json:"compared"`
}

// partPct is a part as a percentage, rounded to a hundredth.
func partPct(p float64) Percent { return Percent(math.Round(p*1e4) / 100) }

// points are the commits that were measured.
func (b *bisection) points(verdicts []*verdict) []Point {
	all := []Point{}
	for i, v := range verdicts {
		if v != nil {
			all = append(all, Point{b.commits[i], len(b.runs[i]), v.Gates, partPct(v.sure), v.Row})
		}
	}
	return all
}

// end names the commits after good up to bad.
func (f *Found) end(b *bisection, good, bad int, verdicts []*verdict, why []string) {
	f.Culprits = b.commits[good+1 : bad+1]
	f.Result = FoundOne
	if len(f.Culprits) > 1 {
		f.Result = FoundRange
	}
	// Either may be wrong.
	sure := partPct(min(surest, verdicts[bad].sure+verdicts[good].sure-1))
	f.Confidence = &sure
	unknown := 0
	for i := good + 1; i < bad; i++ {
		if why[i] != "" {
			f.Notes = append(f.Notes, fmt.Sprintf("%s can't be measured: %s", b.commits[i].short(), why[i]))
		} else {
			unknown++
		}
	}
	if unknown > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d of them have no profile: give the command that measures one after --", unknown))
	}
	if c := f.Culprits[0]; len(f.Culprits) == 1 && c.merge {
		f.Notes = append(f.Notes, fmt.Sprintf("%s is a merge: to look inside, bisect what git merge-base %[1]s^1 %[1]s^2 prints..%[1]s^2", c.short()))
	}
}

// BisectReport is the whole search; as JSON it is the output.
type BisectReport struct {
	Version  int      `json:"version"`
	OK       bool     `json:"ok"` // each example that is worse has its commit, and surely
	Good     Commit   `json:"good"`
	Bad      Commit   `json:"bad"`
	Commits  int      `json:"commits"` // after the good one
	Limits   Limits   `json:"limits"`
	Profiles int      `json:"profiles"` // that were there
	Runs     int      `json:"runs"`     // that were made
	Examples []Found  `json:"examples"`
	Notes    []string `json:"notes"`
}

// sureEnough is the confidence below which an answer is told to be unclear.
const sureEnough = 95

// finish decides on the whole.
func (r *BisectReport) finish() {
	r.OK = true
	for _, f := range r.Examples {
		if f.Result == FoundRange || f.Confidence != nil && *f.Confidence < sureEnough {
			r.OK = false
		}
	}
}
