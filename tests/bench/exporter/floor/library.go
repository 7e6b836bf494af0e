package main

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fourdollars/concourse-ci-machine/tests/bench/exporter/floorplan"
)

// library serves the same with client_golang: families that are made once, and numbers
// that are set in place. It is the least that any program with that library takes.
type library struct {
	floor    *floor
	families []*dto.MetricFamily
	values   []value
}

// value is the place for the number of a part.
type value struct {
	part *floorplan.Part
	to   *float64
}

func newLibrary(f *floor) (http.Handler, error) {
	f.read()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(bytes.NewReader(f.render()))
	if err != nil {
		return nil, err
	}
	l, place := &library{floor: f}, map[string]int{}
	for i := range f.plan.Parts {
		p := &f.plan.Parts[i]
		name := p.Text[:strings.IndexAny(p.Text+" ", "{ ")]
		if name == "#" {
			continue
		}
		m := byName[name].Metric[place[name]]
		place[name]++
		switch {
		case p.Value && m.Counter != nil:
			l.values = append(l.values, value{p, m.Counter.Value})
		case p.Value:
			l.values = append(l.values, value{p, m.Gauge.Value})
		}
	}
	for _, family := range byName {
		l.families = append(l.families, family)
	}
	slices.SortFunc(l.families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return promhttp.HandlerForTransactional(l, promhttp.HandlerOpts{}), nil
}

// Gather implements prometheus.TransactionalGatherer.
func (l *library) Gather() ([]*dto.MetricFamily, func(), error) {
	l.floor.read()
	for _, v := range l.values {
		*v.to = l.floor.number(v.part) * v.part.Times / v.part.Per
	}
	return l.families, func() {}, nil
}
