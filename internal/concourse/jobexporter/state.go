package jobexporter

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// reasons are what everybody may know of a failure. The log has its whole text,
// with the names of users and files.
var reasons = map[result]string{
	resultCredentials: "the credentials file cannot be used",
	resultLogin:       "Concourse refuses the login",
	resultRefused:     "Concourse refuses the request",
	resultFailing:     "Concourse fails at the request, mostly as it has no database",
	resultUnreachable: "Concourse does not answer",
	resultAnswer:      "Concourse's answer cannot be read",
}

// Ready is nil while Concourse answers, and says else why it does not.
func (p *Poller) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.polled:
		return errors.New("Concourse has not been asked yet")
	case p.err != nil:
		return errors.New(reasons[kind(p.err)] + "; see the exporter's log")
	}
	return nil
}

func kind(err error) result {
	var f *failure
	if errors.As(err, &f) {
		return f.result
	}
	return resultUnreachable
}

// Describe implements prometheus.Collector.
func (p *Poller) Describe(to chan<- *prometheus.Desc) {
	for _, f := range Families() {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (p *Poller) Collect(to chan<- prometheus.Metric) {
	for _, m := range p.metrics() {
		to <- m
	}
}

func (p *Poller) metrics() []prometheus.Metric {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []prometheus.Metric{
		metric(exporterInfo, 1, p.o.Version),
		metric(up, truth(p.polled && p.err == nil)),
	}
	if !p.success.IsZero() {
		out = append(out, metric(lastSuccess, seconds(p.success)))
	}
	if p.polled {
		out = append(out, metric(pollDuration, p.took.Seconds()))
	}
	for _, r := range results {
		out = append(out, metric(polls, float64(p.count[r]), string(r)))
	}
	if p.fresh(p.o.Now()) {
		out = append(out, p.answer...)
	}
	return out
}
