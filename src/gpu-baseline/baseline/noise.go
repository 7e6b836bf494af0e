package baseline

import "math"

// The model: the runs of a commit scatter independently around the commit's value. Their
// standard deviation is the same fraction of that value for every commit, and their mean
// has a normal distribution. That fraction is the noise. The model uses means and standard
// deviations, because medians mislead on a GPU with two modes: the median of a few runs is
// in one mode or the other, however small the spread is in each.

// clearAt is the minimum confidence of a verdict that is not measured again.
const clearAt = 0.99

// surest is the maximum confidence, because the model leaves effects out.
const surest = 0.999

// few is the number of repeated runs below which the assumed noise also applies.
const few = 5

// verdict holds the judgement of an example's value.
type verdict struct {
	Row
	sure float64 // confidence that Gates is right, 0.5 to surest
}

// judge compares one example's values. duration and memory are the standard errors of the
// growth. If the result is not Within or Beyond, the statuses decided it, and they have no
// noise.
func (l Limits) judge(name string, base, now Measured, duration, memory float64) verdict {
	v := verdict{Row: l.row(&Example{name, base}, &Example{name, now}), sure: surest}
	if v.Result != Within && v.Result != Beyond {
		return v
	}
	unsure, right := 0.0, 0.0
	for _, q := range []struct {
		was, is *Amount
		pct     *Percent
		most    *Amount
		err     float64
	}{{base.Duration, now.Duration, l.DurationPct, l.Duration, duration}, {base.Memory, now.Memory, l.MemoryPct,
		l.Memory, memory}} {
		if q.was == nil || q.is == nil || q.pct == nil && q.most == nil {
			continue
		}
		above := float64(*q.is) - l.bound(*q.was, q.pct, q.most)
		p := certainty(above, q.err)
		if above > 0 {
			right = max(right, p)
		}
		unsure += 1 - p
	}
	switch {
	case v.Gates && right > 0:
		v.sure = right
	case !v.Gates:
		v.sure = 1 - unsure
	}
	v.sure = min(max(v.sure, 0.5), surest)
	return v
}

// bound returns the largest value within the limits. At least one limit must be set.
func (l Limits) bound(base Amount, pct *Percent, most *Amount) float64 {
	b := float64(base)
	switch {
	case pct == nil || base == 0 && most != nil:
		return b + float64(*most)
	case base == 0: // it has no percentage
		return math.Inf(1)
	case most == nil:
		return b * (1 + float64(*pct)/100)
	case l.Together:
		return max(b*(1+float64(*pct)/100), b+float64(*most))
	}
	return min(b*(1+float64(*pct)/100), b+float64(*most))
}

// certainty returns the part of a normal distribution on the same side of 0 as its centre.
func certainty(distance, deviation float64) float64 {
	if deviation == 0 {
		return 1
	}
	return 0.5 * (1 + math.Erf(math.Abs(distance)/deviation/math.Sqrt2))
}

func root(n int) float64 { return math.Sqrt(float64(n)) }

// mean returns nil for an empty list.
func mean(all []Amount) *Amount {
	if len(all) == 0 {
		return nil
	}
	sum := 0.0
	for _, a := range all {
		sum += float64(a)
	}
	m := Amount(math.Round(sum / float64(len(all))))
	return &m
}

// deviation returns the common standard deviation within groups, or 0 if no group has two
// values.
func deviation(groups ...[]float64) float64 {
	squares, free := 0.0, 0
	for _, g := range groups {
		mean := 0.0
		for _, x := range g {
			mean += x / float64(len(g))
		}
		for _, x := range g {
			squares += (x - mean) * (x - mean)
		}
		free += max(0, len(g)-1)
	}
	return math.Sqrt(squares / float64(max(1, free)))
}

// relative returns values relative to their mean, or none if the mean is 0.
func relative(all []Amount) (parts []float64) {
	m := mean(all)
	if m == nil || *m == 0 {
		return nil
	}
	for _, a := range all {
		parts = append(parts, float64(a)/float64(*m))
	}
	return parts
}

// sample has the measurements of one example in a commit's runs, if it was ok.
type sample struct{ durations, memories []Amount }

// gather collects an example from profiles. If it is ok in no run, why has the reason.
func gather(name string, runs []Profile) (s sample, why string) {
	for _, p := range runs {
		e, ok := p.find(name)
		switch {
		case !ok:
			why = "is missing"
		case e.Status != StatusOK:
			why = "is " + string(e.Status)
		default:
			if e.Duration != nil {
				s.durations = append(s.durations, *e.Duration)
			}
			if e.Memory != nil {
				s.memories = append(s.memories, *e.Memory)
			}
		}
	}
	if len(s.durations)+len(s.memories) > 0 {
		return s, ""
	}
	if why == "" {
		why = "has no duration_s and no peak_memory_mb"
	}
	return s, why
}

// measured returns the means.
func (s sample) measured() Measured {
	return Measured{Status: StatusOK, Duration: mean(s.durations), Memory: mean(s.memories)}
}

// noise measures the scatter of runs of one commit, relative to their value.
type noise struct{ duration, memory float64 }

// judge compares two samples. The error of the growth includes the error of the bound,
// which derives from measured values.
func (n noise) judge(l Limits, name string, base, now sample) verdict {
	was, is := base.measured(), now.measured()
	return l.judge(name, was, is,
		l.scatter(n.duration, was.Duration, is.Duration, l.DurationPct, l.Duration, base.durations, now.durations),
		l.scatter(n.memory, was.Memory, is.Memory, l.MemoryPct, l.Memory, base.memories, now.memories))
}

func (l Limits) scatter(noise float64, was, is *Amount, pct *Percent, most *Amount, base, now []Amount) float64 {
	if was == nil || is == nil || pct == nil && most == nil || *was == 0 {
		return 0
	}
	return noise * math.Hypot(float64(*is)/root(len(now)), l.bound(*was, pct, most)/root(len(base)))
}
