package clockpin

import (
	"slices"
	"strings"
	"time"
)

// Span is a time in which what a task measured does not count: from the look before the
// one that first saw what is wrong, to the one that last did.
type Span struct {
	From, To time.Time
	Why      string // it began with this
}

// maxSpans and maxWhy, in bytes, bound what a record and a verdict have of them.
const maxSpans, maxWhy = 6, 120

// spans are times in their order, none of which touch.
type spans []Span

// with is the list with one more time. Of too many the earliest two are joined, with what
// was between them: a result that counts too little harms less than one too much.
func (all spans) with(one Span) (apart spans) {
	one.Why = bounded(one.Why, maxWhy)
	for _, s := range slices.SortedStableFunc(slices.Values(append(slices.Clone(all), one)), func(a, b Span) int { return a.From.Compare(b.From) }) {
		if n := len(apart); n == 0 || s.From.After(apart[n-1].To) {
			apart = append(apart, s)
		} else if s.To.After(apart[n-1].To) {
			apart[n-1].To = s.To
		}
	}
	if len(apart) > maxSpans {
		apart[1].From, apart[1].Why = apart[0].From, apart[0].Why
		apart = apart[1:]
	}
	return apart
}

// bounded is a text of so many bytes at most, in one line of what is shown as it is.
func bounded(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// MarkWrong says what is wrong since the last look, until then.
func (r *Record) MarkWrong(why string, until time.Time) {
	from := r.Looked
	if from.IsZero() {
		from = r.Since
	}
	r.Wrong = r.Wrong.with(Span{from, until, why})
}
