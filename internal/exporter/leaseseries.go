package exporter

import (
	"time"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/gpu"
)

// staleLeases is the age from which a report tells nothing of the moment. It is
// written every 15 s.
const staleLeases = 2 * time.Minute

// readLeases reads the report once a scrape.
func (c *Collector) readLeases() *LeaseReport {
	if c.options.Leases == "" {
		return nil
	}
	return decodeReport[LeaseReport](c, "leases", c.readReport("leases", c.options.Leases))
}

// addLeases adds what concerns no single GPU. Counters outlive a report that
// nobody writes any more, as its age tells of it.
func (c *Collector) addLeases(out []expo.Sample, r *LeaseReport) []expo.Sample {
	if r == nil {
		return out
	}
	names := c.families
	add := func(s expo.Series, v float64) { out = append(out, expo.Sample{Series: &s, Value: v}) }
	now := c.now()
	n := r.Counters
	add(expo.NewSeries(leaseGranted, names[leaseGranted].Name), float64(n.Granted))
	for _, refused := range []struct {
		reason string
		number uint64
	}{{"busy", n.Busy}, {"impossible", n.Impossible}} {
		add(expo.NewSeries(leaseRefused, names[leaseRefused].Name, label("reason", refused.reason)), float64(refused.number))
	}
	add(expo.NewSeries(leaseHeldSeconds, names[leaseHeldSeconds].Name), n.HeldSeconds)
	add(expo.NewSeries(leaseReportAge, names[leaseReportAge].Name), max(now.Sub(r.At).Seconds(), 0))
	return out
}

// addLease adds the lease of a device.
func (c *Collector) addLease(out []expo.Sample, r *LeaseReport, l labels, d Device) []expo.Sample {
	now := c.now()
	if r == nil || !fresh(r, now) {
		return out
	}
	name := gpu.Slot(d.PCI, d.Partition)
	for _, g := range r.GPUs {
		if g.Name != name {
			continue
		}
		out = append(out, expo.Sample{Series: l.series(leaseHeld), Value: oneIf(g.Held)})
		if g.Held && g.Since != nil {
			out = append(out, expo.Sample{Series: l.series(leaseAge, label("container", g.Container[:min(len(g.Container), 64)])), Value: max(now.Sub(*g.Since).Seconds(), 0)})
		}
		return append(out, expo.Sample{Series: l.series(leaseDoubtful), Value: oneIf(g.Doubt != "")})
	}
	return out
}

func fresh(r *LeaseReport, now time.Time) bool { return now.Sub(r.At).Abs() < staleLeases }
