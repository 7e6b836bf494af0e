package baseline

import (
	"fmt"
	"strings"
)

// Limits bound how much worse an example may get. A nil limit does not apply.
type Limits struct {
	DurationPct  *Percent `json:"max_duration_pct"`
	Duration     *Amount  `json:"max_duration_s"`
	MemoryPct    *Percent `json:"max_memory_pct"`
	Memory       *Amount  `json:"max_memory_mb"`
	Together     bool     `json:"together"`      // a number with two limits must exceed both
	AllowMissing bool     `json:"allow_missing"` // examples and measurements may be missing
}

// Result names the result of one example.
type Result string

const (
	Within    Result = "within"    // ok in both, within the limits
	Beyond    Result = "beyond"    // ok in both, beyond a limit
	Regressed Result = "regressed" // was ok, failed
	Fixed     Result = "fixed"     // had failed, is ok
	Failing   Result = "failing"   // failed in both
	Skipped   Result = "skipped"   // in the baseline, but skipped in the new profile
	Missing   Result = "missing"   // in the baseline, but not in the new profile
	New       Result = "new"       // not in the baseline, or skipped in it
)

// Row holds the comparison of one example. Deltas are new minus base. They are nil if one
// value was not measured, or if the example is not ok in both.
type Row struct {
	Name        string    `json:"name"`
	Result      Result    `json:"result"`
	Gates       bool      `json:"gates"` // makes the comparison fail
	Base        *Measured `json:"base"`
	New         *Measured `json:"new"`
	Duration    *Amount   `json:"duration_delta_s"`
	DurationPct *Percent  `json:"duration_delta_pct"` // also nil if the baseline is 0 s
	Memory      *Amount   `json:"peak_memory_delta_mb"`
	MemoryPct   *Percent  `json:"peak_memory_delta_pct"`
	Energy      *Amount   `json:"energy_delta_j,omitempty"` // without a limit
	EnergyPct   *Percent  `json:"energy_delta_pct,omitempty"`
	Reasons     []string  `json:"reasons"` // why it gates
	Notes       []string  `json:"notes"`
}

func (r *Row) because(format string, a ...any) {
	r.Gates, r.Reasons = true, append(r.Reasons, fmt.Sprintf(format, a...))
}

func (r *Row) note(format string, a ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, a...)) }

// row judges one example. base or now may be nil, but not both.
func (l Limits) row(base, now *Example) Row {
	r := Row{Reasons: []string{}, Notes: []string{}}
	if base != nil {
		r.Name, r.Base = base.Name, &base.Measured
	}
	if now != nil {
		r.Name, r.New = now.Name, &now.Measured
	}
	switch {
	case now == nil:
		r.Result = Missing
		if !l.AllowMissing {
			r.because("it is in the baseline and missing now")
		}
	case base == nil || base.Status == StatusSkipped:
		l.isNew(&r)
	case now.Status == StatusSkipped:
		r.Result = Skipped
		if base.Status == StatusOK && !l.AllowMissing {
			r.because("it was ok and is skipped now")
		}
	case base.Status == StatusOK && now.Status == StatusFailed:
		r.Result = Regressed
		r.because("it was ok and failed now")
	case base.Status == StatusOK:
		l.measure(&r)
	case now.Status == StatusOK:
		r.Result = Fixed
		r.note("it had failed: the baseline has nothing to compare with")
	default:
		r.Result = Failing
		r.note("it failed in both: nothing is compared")
	}
	return r
}

func (l Limits) isNew(r *Row) {
	r.Result = New
	switch {
	case r.New.Status == StatusFailed:
		r.note("it failed; what is new does not make the comparison fail")
	case r.Base != nil:
		r.note("it was skipped in the baseline")
	}
}

// measure compares the numbers of an example that is ok in both profiles.
func (l Limits) measure(r *Row) {
	r.Duration, r.DurationPct = l.grew(r, "duration", "duration_s", "s", r.Base.Duration, r.New.Duration,
		l.DurationPct, l.Duration)
	r.Memory, r.MemoryPct = l.grew(r, "peak memory", "peak_memory_mb", "MB", r.Base.Memory, r.New.Memory,
		l.MemoryPct, l.Memory)
	if was, is := r.Base.Energy, r.New.Energy; was != nil && is != nil {
		d := *is - *was
		r.Energy, r.EnergyPct = &d, percent(d, *was)
	}
	r.Result = Within
	if r.Gates {
		r.Result = Beyond
	}
}

// grew compares one number with its two limits.
func (l Limits) grew(r *Row, what, field, unit string, was, is *Amount, maxPct *Percent, most *Amount) (*Amount,
	*Percent) {
	limited := maxPct != nil || most != nil
	if !r.both(field, was, is, limited && !l.AllowMissing) {
		return nil, nil
	}
	d := *is - *was
	pct := percent(d, *was)
	absolute := most != nil && d > *most
	relative := maxPct != nil && pct != nil && *pct > *maxPct
	if l.Together && most != nil && maxPct != nil && pct != nil {
		absolute = absolute && relative
		relative = absolute
	}
	if absolute {
		r.because("%s grew by %s %s; the limit is %s %s", what, d, unit, most, unit)
	}
	if relative {
		r.because("%s grew by %s %%; the limit is %s %%", what, pct, maxPct)
	}
	if maxPct != nil && pct == nil && d > 0 {
		flag := "--max-" + strings.TrimPrefix(strings.ReplaceAll(field, "_", "-"), "peak-")
		if most == nil {
			r.note("its baseline is 0 %s, which has no percentage, so no limit applies: give %s", unit, flag)
		} else {
			r.note("its baseline is 0 %s, which has no percentage: %s alone decides", unit, flag)
		}
	}
	return &d, pct
}

// both reports whether a field was measured in both profiles. A missing field gates,
// because otherwise its limit would never apply again.
func (r *Row) both(field string, was, is *Amount, gate bool) bool {
	switch {
	case was != nil && is == nil && gate:
		r.because("%s is in the baseline and missing now", field)
	case was != nil && is == nil:
		r.note("%s is in the baseline and missing now", field)
	case was == nil && is != nil:
		r.note("%s is not in the baseline", field)
	}
	return was != nil && is != nil
}
