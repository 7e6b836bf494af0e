package taskrecord

import (
	"cmp"
	"slices"
	"time"
)

// Timeline shows a record as charts over the same time, with marks.
type Timeline struct {
	Handle string    `json:"handle"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Charts []Chart   `json:"charts"`
	Marks  []Mark    `json:"marks"`
}

// Chart holds the values of one reading in equal intervals; nil is unknown.
type Chart struct {
	Name   string     `json:"name"`
	Unit   string     `json:"unit"` // "%", "MiB", "MiB/s", "MHz", "°C", "W", ""
	GPU    string     `json:"gpu,omitempty"`
	Values []*float64 `json:"values"`
	Most   float64    `json:"most"`
}

// Mark is an event in an interval.
type Mark struct {
	At   int       `json:"at"` // number of the interval
	Kind EventKind `json:"kind"`
	GPU  string    `json:"gpu,omitempty"`
	Time time.Time `json:"time"`
}

// source connects a counter with a chart. A sum is shown as its growth in a second.
type source struct {
	name, unit string
	counter    int
	sum        bool
	per        float64 // counter units in one unit of the chart
}

const mebibyte = 1 << 20

var sources = []source{
	{"CPU", "%", CPUUsage, true, 1e4}, {"CPU wait", "%", CPUStallFull, true, 1e4},
	{"memory", "MiB", MemoryUsed, false, mebibyte}, {"memory wait", "%", MemoryStallFull, true, 1e4},
	{"disk wait", "%", IOStallFull, true, 1e4}, {"disk read", "MiB/s", DiskRead, true, mebibyte},
	{"disk written", "MiB/s", DiskWritten, true, mebibyte}, {"network in", "MiB/s", NetReceived, true, mebibyte},
	{"network out", "MiB/s", NetSent, true, mebibyte}, {"TCP resent", "/s", TCPResent, true, 1},
	{"disk free", "MiB", DiskFree, false, mebibyte}, {"neighbours' CPU", "%", NeighboursCPU, true, 1e4},
	{"neighbours' memory", "MiB", NeighboursMemory, false, mebibyte},
}

var gpuSources = []source{
	{"busy", "%", Busy, false, 10}, {"clock", "MHz", Clock, false, 1}, {"memory", "MiB", VideoUsed, false, mebibyte},
	{"temperature", "°C", Temperature, false, 10}, {"power", "W", Power, false, 1000},
	{"slowed by heat", "%", Thermal, false, 10},
}

// TimelineOf returns the timeline of a record in a number of intervals.
func TimelineOf(r *Record, intervals int) Timeline {
	t := Timeline{Handle: r.Head.Handle, From: r.Head.Started.UTC(), To: r.Ended().UTC(), Charts: []Chart{},
		Marks: []Mark{}}
	axis := axis{t.From.UnixMilli(), max(1, t.To.Sub(t.From).Milliseconds()), intervals}
	for _, s := range sources {
		t.add(s, "", r.Machine, axis)
	}
	for _, g := range r.Head.GPUs {
		for _, s := range gpuSources {
			t.add(s, g.Name, r.GPUs[g.Name], axis)
		}
	}
	for _, e := range r.Events {
		t.Marks = append(t.Marks, Mark{axis.at(e.At.UnixMilli()), e.Kind, e.GPU, e.At.UTC()})
	}
	slices.SortStableFunc(t.Marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	return t
}

// axis maps times to intervals.
type axis struct {
	from, length int64 // milliseconds
	intervals    int
}

func (a axis) at(ms int64) int {
	return int(max(0, min(int64(a.intervals-1), (ms-a.from)*int64(a.intervals)/a.length)))
}

// add adds a chart with the mean of each interval, unless the reading is missing or
// always 0.
func (t *Timeline) add(s source, gpu string, samples []Sample, a axis) {
	sums, counts := make([]float64, a.intervals), make([]float64, a.intervals)
	var last Sample
	for _, one := range samples {
		v, ok := one.Get(s.counter)
		if !ok {
			continue
		}
		value, weight := float64(v), 1.
		if s.sum {
			was, known := last.Get(s.counter)
			seconds := float64(one.At-last.At) / 1000
			last = one
			if !known || v < was || seconds <= 0 {
				continue
			}
			value, weight = float64(v-was)/seconds, seconds
		}
		i := a.at(one.At)
		sums[i], counts[i] = sums[i]+value/s.per*weight, counts[i]+weight
	}
	c := Chart{Name: s.name, Unit: s.unit, GPU: gpu, Values: make([]*float64, a.intervals)}
	for i, n := range counts {
		if n > 0 {
			v := sums[i] / n
			c.Values[i], c.Most = &v, max(c.Most, v)
		}
	}
	if c.Most > 0 {
		t.Charts = append(t.Charts, c)
	}
}
