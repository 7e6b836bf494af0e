package series

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// sheet is the series of one scrape after the other. Most are those of the scrape
// before: their names and labels are made once, and only their numbers set in place.
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
		s.families = append(s.families, &dto.MetricFamily{Name: proto.String(f.Name), Help: proto.String(f.Help), Type: &kind})
		s.order = append(s.order, f.place)
	}
	slices.SortFunc(s.order, func(a, b int) int { return strings.Compare(Families[a].Name, Families[b].Name) })
	return s
}

// begin empties the sheet.
func (s *sheet) begin() {
	for _, f := range s.families {
		f.Metric = f.Metric[:0]
	}
}

// filled are the families that have series, by name.
func (s *sheet) filled() []*dto.MetricFamily {
	s.out = s.out[:0]
	for _, place := range s.order {
		if f := s.families[place]; len(f.Metric) > 0 {
			s.out = append(s.out, f)
		}
	}
	return s.out
}

// rows are the series of one GPU, or those of no GPU, in the order that they are put.
type rows struct {
	sheet *sheet
	gpu   []*dto.LabelPair // labels that all series of a GPU have
	memo  []*row           // of the last scrape, by place
	next  int
}

// row is one series.
type row struct {
	family *Family
	labels []string
	metric dto.Metric
	gauge  dto.Gauge
	value  float64
}

// ahead is how many rows may have gone since the last scrape for the next one to be
// found again.
const ahead = 64

// put adds a series with the values of its family's labels.
func (r *rows) put(f *Family, v float64, labels ...string) {
	at := r.next
	for ; at < len(r.memo) && at < r.next+ahead; at++ {
		if w := r.memo[at]; w.family == f && slices.Equal(w.labels, labels) {
			break
		}
	}
	if at < len(r.memo) && at < r.next+ahead {
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

// end forgets the rows that were not put this time.
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

// keptPairs limits the labels that are kept, because names of containers always change.
const keptPairs = 8192

// pair returns a label, which all series with it share: otherwise the heap and the work of the
// garbage collector grow faster than the series. Text of a device or a report may be no UTF-8,
// which no format takes.
func (s *sheet) pair(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	p := s.pairs[key]
	if p == nil {
		if len(s.pairs) >= keptPairs {
			clear(s.pairs)
		}
		p = &dto.LabelPair{Name: proto.String(name), Value: proto.String(strings.ToValidUTF8(value, "\ufffd"))}
		s.pairs[key] = p
	}
	return p
}
