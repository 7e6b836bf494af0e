package baseline

import "fmt"

// Limits are what may get worse, and by how much. A nil limit is none.
type Limits struct {
	DurationPct  *Percent `json:"max_duration_pct"`
	Duration     *Amount  `json:"max_duration_s"`
	Memory       *Amount  `json:"max_memory_mb"`
	AllowMissing bool     `json:"allow_missing"` // examples and measurements may be gone
}

// Result is what became of one example between the profiles.
type Result string

const (
	Within    Result = "within"    // ok in both, within the limits
	Beyond    Result = "beyond"    // ok in both, beyond a limit
	Regressed Result = "regressed" // was ok, failed
	Fixed     Result = "fixed"     // had failed, is ok
	Failing   Result = "failing"   // failed in both
	Skipped   Result = "skipped"   // was in the baseline, was skipped now
	Missing   Result = "missing"   // was in the baseline, is not there now
	New       Result = "new"       // was not in the baseline, or skipped there
)

// Row is one example. Deltas are new minus base; nil where one of them was not
// measured, or where the example is not ok in both.
type Row struct {
	Name        string    `json:"name"` // in new; of a missing one in base
	RenamedFrom *string   `json:"renamed_from"`
	Result      Result    `json:"result"`
	Gates       bool      `json:"gates"` // whether it makes the comparison fail
	Base        *Measured `json:"base"`
	New         *Measured `json:"new"`
	Duration    *Amount   `json:"duration_delta_s"`
	DurationPct *Percent  `json:"duration_delta_pct"` // nil also where the baseline is 0 s
	Memory      *Amount   `json:"peak_memory_delta_mb"`
	Reasons     []string  `json:"reasons"` // why it gates
	Notes       []string  `json:"notes"`
}

func (r *Row) because(format string, a ...any) {
	r.Gates, r.Reasons = true, append(r.Reasons, fmt.Sprintf(format, a...))
}

func (r *Row) note(format string, a ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, a...))
}

// row judges one example; base or now may be nil, not both.
func (l Limits) row(base, now *Example) Row {
	r := Row{Reasons: []string{}, Notes: []string{}}
	if base != nil {
		r.Name, r.Base = base.Name, &base.Measured
	}
	if now != nil {
		r.New = &now.Measured
		if base != nil && now.Name != base.Name {
			r.RenamedFrom = &base.Name
		}
		r.Name = now.Name
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

// measure compares the numbers of an example that is ok in both.
func (l Limits) measure(r *Row) {
	was, is := r.Base.Duration, r.New.Duration
	limited := l.DurationPct != nil || l.Duration != nil
	if r.both("duration_s", was, is, limited && !l.AllowMissing) {
		d := *is - *was
		r.Duration, r.DurationPct = &d, percent(d, *was)
		if l.Duration != nil && d > *l.Duration {
			r.because("duration grew by %s s; the limit is %s s", d, l.Duration)
		}
		switch {
		case l.DurationPct == nil:
		case r.DurationPct != nil:
			if *r.DurationPct > *l.DurationPct {
				r.because("duration grew by %s %%; the limit is %s %%", r.DurationPct, l.DurationPct)
			}
		case d > 0 && l.Duration == nil:
			r.note("its baseline is 0 s, which has no percentage, so no limit applies: give --max-duration-s")
		case d > 0:
			r.note("its baseline is 0 s, which has no percentage: --max-duration-s alone decides")
		}
	}
	was, is = r.Base.Memory, r.New.Memory
	if r.both("peak_memory_mb", was, is, l.Memory != nil && !l.AllowMissing) {
		d := *is - *was
		r.Memory = &d
		if l.Memory != nil && d > *l.Memory {
			r.because("peak memory grew by %s MB; the limit is %s MB", d, l.Memory)
		}
	}
	r.Result = Within
	if r.Gates {
		r.Result = Beyond
	}
}

// both reports whether a field was measured twice. A limit on what is measured no
// more would hold for ever.
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
