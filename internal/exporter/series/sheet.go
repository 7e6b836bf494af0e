package series

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// sheet holds the series of a scrape. Most series are equal to those of the previous
// scrape: names and labels are made once, and only the numbers are set in place.
type sheet struct {
	families []*dto.MetricFamily // by Family.place
	order    []int               // by name
	out      []*dto.MetricFamily
	pairs    map[[2]string]*dto.LabelPair
}

func newSheet() *sheet {
	s := &sheet{pairs: map[[2]string]*dto.LabelPair{}}
	for _, f := range Families {
		kind := dto.MetricType_GAUGE
		if f.Counter {
			kind = dto.MetricType_COUNTER
		}
		s.families = append(s.families, &dto.MetricFamily{Name: new(f.Name), Help: new(f.Help), Type: &kind})
		s.order = append(s.order, f.place)
	}
	slices.SortFunc(s.order, func(a, b int) int { return strings.Compare(Families[a].Name, Families[b].Name) })
	return s
}

// filled returns the families that have series, by name.
func (s *sheet) filled() []*dto.MetricFamily {
	s.out = s.out[:0]
	for _, place := range s.order {
		if f := s.families[place]; len(f.Metric) > 0 {
			s.out = append(s.out, f)
		}
	}
	return s.out
}

// rows holds the series of one GPU, or the series without a GPU, in the order of put.
type rows struct {
	sheet *sheet
	gpu   []*dto.LabelPair // labels of all series of the GPU
	memo  []*row           // rows of the previous scrape, in order
	next  int
}

// row holds one series.
type row struct {
	family *Family
	labels []string
	metric dto.Metric
	gauge  dto.Gauge
	value  float64
}

// ahead is the number of removed rows after which the next row is still found again.
const ahead = 64

// put adds a series with the values of its family's labels.
func (r *rows) put(f *Family, v float64, labels ...string) {
	at, end := r.next, min(len(r.memo), r.next+ahead)
	for ; at < end; at++ {
		if w := r.memo[at]; w.family == f && slices.Equal(w.labels, labels) {
			break
		}
	}
	if at < end {
		r.memo = slices.Delete(r.memo, r.next, at)
	} else {
		r.memo = slices.Insert(r.memo, r.next, r.make(f, slices.Clone(labels)))
	}
	w := r.memo[r.next]
	w.value = v
	r.next++
	family := r.sheet.families[f.place]
	family.Metric = append(family.Metric, &w.metric)
}

// end drops the rows that were not put in this scrape.
func (r *rows) end() {
	clear(r.memo[r.next:])
	r.memo, r.next = r.memo[:r.next], 0
}

func (r *rows) make(f *Family, labels []string) *row {
	w := &row{family: f, labels: labels}
	if f.GPU {
		w.metric.Label = slices.Clone(r.gpu)
	}
	for i, name := range f.Labels {
		w.metric.Label = append(w.metric.Label, r.sheet.pair(name, labels[i]))
	}
	slices.SortFunc(w.metric.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	if f.Counter {
		w.metric.Counter = &dto.Counter{Value: &w.value}
	} else {
		w.gauge.Value = &w.value
		w.metric.Gauge = &w.gauge
	}
	return w
}

// maxPairs limits the stored labels, because names of containers always change.
const maxPairs = 8192

// pair returns a label, which all series with it share. Otherwise the heap and the work of
// the garbage collector would grow faster than the series. Text of a device or a report may
// be invalid UTF-8, which every format rejects.
func (s *sheet) pair(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	p := s.pairs[key]
	if p == nil {
		if len(s.pairs) >= maxPairs {
			clear(s.pairs)
		}
		p = &dto.LabelPair{Name: new(name), Value: new(strings.ToValidUTF8(value, "\ufffd"))}
		s.pairs[key] = p
	}
	return p
}
