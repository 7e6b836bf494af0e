package jobexporter

import (
	"errors"

	"concourse-ci-machine/internal/exporter/expo"
)

// reasons are what everybody may know of a failure. The log has its whole text,
// with the names of users and files.
var reasons = map[result]string{
	resultCredentials: "the credentials file cannot be used",
	resultLogin:       "Concourse refuses the login",
	resultRefused:     "Concourse refuses the request",
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

// Write appends /metrics to b.
func (p *Poller) Write(b []byte, format expo.Format) []byte {
	return p.writer.Append(b, format, p.samples())
}

func (p *Poller) samples() []expo.Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []expo.Sample
	if p.fresh(p.o.Now()) {
		out = append(make([]expo.Sample, 0, len(p.answer)+16), p.answer...)
	}
	table := Families()
	put := func(id expo.ID, value float64, labels ...expo.Label) {
		s := expo.NewSeries(id, table[id].Name, labels...)
		out = append(out, expo.Sample{Series: &s, Value: value})
	}
	put(exporterInfo, 1, label("version", p.o.Version))
	put(up, truth(p.polled && p.err == nil))
	if !p.success.IsZero() {
		put(lastSuccess, seconds(p.success))
	}
	if p.polled {
		put(pollDuration, p.took.Seconds())
	}
	for _, r := range results {
		put(polls, float64(p.count[r]), label("result", string(r)))
	}
	return out
}
