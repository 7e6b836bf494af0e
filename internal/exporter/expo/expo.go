// Package expo writes metrics in Prometheus' text format and in OpenMetrics,
// fast: what stays the same of a series is written once and kept as text, and
// a scrape only adds the numbers. It measures nothing and knows no GPU.
package expo

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Kind is a metric's type. There is no histogram and no summary.
type Kind uint8

// The kinds. A counter's name ends in _total.
const (
	Gauge Kind = iota
	Counter
)

// Family is all series of one name.
type Family struct {
	Name string
	Help string
	Kind Kind
}

// ID is a family's place in the table that a Writer has.
type ID uint16

// Series is one line but for its number.
type Series struct {
	ID    ID
	Head  string // name, labels, and the space after them
	whole bool   // Head is all of the line
}

// Fix makes a line of a sample whose number will not change soon, so that
// writing it costs no more than copying.
func (s Sample) Fix() Sample {
	line := append(appendNumber([]byte(s.Series.Head), s.Value), '\n')
	return Sample{Series: &Series{ID: s.Series.ID, Head: string(line), whole: true}, Value: s.Value}
}

// Label is one pair.
type Label struct{ Name, Value string }

// NewSeries writes the head, with the labels sorted by name.
func NewSeries(id ID, name string, labels ...Label) Series {
	return Series{ID: id, Head: head(name, labels)}
}

// head is a series but for its number.
func head(name string, labels []Label) string {
	sorted := slices.Clone(labels)
	slices.SortStableFunc(sorted, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	b.WriteString(name)
	for i, l := range sorted {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(l.Name)
		b.WriteString(`="`)
		b.WriteString(escape.Replace(strings.ToValidUTF8(l.Value, "\ufffd")))
		b.WriteByte('"')
	}
	if len(sorted) > 0 {
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	return b.String()
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Sample is a series with its number.
type Sample struct {
	Series *Series
	Value  float64
}

// Writer knows the families. It may be used by several goroutines.
type Writer struct {
	heads  [2][]string // by format and family: the lines before the series
	order  []ID        // by name
	number int

	indexes sync.Pool // *indexes
}

// indexes chain the samples of each family.
type indexes struct{ next, first, last []int32 }

// NewWriter takes the families, whose places are their IDs.
func NewWriter(families []Family) *Writer {
	w := &Writer{number: len(families)}
	for i, f := range families {
		w.order = append(w.order, ID(i))
		help := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(f.Help)
		kind := [...]string{"gauge", "counter"}[f.Kind]
		w.heads[Text] = append(w.heads[Text], "# HELP "+f.Name+" "+help+"\n# TYPE "+f.Name+" "+kind+"\n")
		// OpenMetrics names a counter without the end of its series' names.
		name := f.Name
		if f.Kind == Counter {
			name = strings.TrimSuffix(name, "_total")
		}
		help = strings.ReplaceAll(help, `"`, `\"`)
		w.heads[OpenMetrics] = append(w.heads[OpenMetrics], "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n")
	}
	slices.SortFunc(w.order, func(a, b ID) int { return strings.Compare(families[a].Name, families[b].Name) })
	return w
}

// Append writes all samples to b, family by family in the order of the names,
// and within a family in the order that they came in.
func (w *Writer) Append(b []byte, format Format, samples []Sample) []byte {
	const none = -1
	ix, _ := w.indexes.Get().(*indexes)
	if ix == nil {
		ix = &indexes{first: make([]int32, w.number), last: make([]int32, w.number)}
	}
	defer w.indexes.Put(ix)
	ix.next = slices.Grow(ix.next[:0], len(samples))[:len(samples)]
	next, first, last := ix.next, ix.first, ix.last
	for i := range first {
		first[i] = none
	}
	for i, s := range samples {
		next[i] = none
		if id := s.Series.ID; first[id] == none {
			first[id], last[id] = int32(i), int32(i)
		} else {
			next[last[id]], last[id] = int32(i), int32(i)
		}
	}
	for _, id := range w.order {
		if first[id] == none {
			continue
		}
		b = append(b, w.heads[format][id]...)
		for i := first[id]; i != none; i = next[i] {
			s := &samples[i]
			b = append(b, s.Series.Head...)
			if !s.Series.whole {
				b = append(appendNumber(b, s.Value), '\n')
			}
		}
	}
	if format == OpenMetrics {
		b = append(b, "# EOF\n"...)
	}
	return b
}

// appendNumber writes as strconv's %g does, with a short cut for the numbers
// that most series have.
func appendNumber(b []byte, v float64) []byte {
	if i := int64(v); v > -1e6 && v < 1e6 && float64(i) == v {
		return strconv.AppendInt(b, i, 10)
	}
	if v >= 1e6 && v < 1e15 && float64(int64(v)) == v {
		return appendLarge(b, int64(v))
	}
	if v > 0 && v < 1e6 {
		if n := int64(v*100 + .5); n > 0 && float64(n)/100 == v {
			return appendHundredths(b, n)
		}
	}
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// appendLarge writes a whole number from 1e6 to 1e15 as %g does: bytes and hertz
// are such numbers, and have no shorter form than their own digits.
func appendLarge(b []byte, n int64) []byte {
	var tmp [16]byte
	digits := strconv.AppendInt(tmp[:0], n, 10)
	exponent := len(digits) - 1
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	b = append(b, digits[0])
	if len(digits) > 1 {
		b = append(b, '.')
		b = append(b, digits[1:]...)
	}
	return append(b, 'e', '+', byte('0'+exponent/10), byte('0'+exponent%10))
}

// appendHundredths writes n/100 without zeros at its end, as %g does below 1e6.
func appendHundredths(b []byte, n int64) []byte {
	b = append(strconv.AppendInt(b, n/100, 10), '.', byte('0'+n/10%10))
	if n%10 != 0 {
		b = append(b, byte('0'+n%10))
	}
	return b
}
