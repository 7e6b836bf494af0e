package exporter

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"concourse-ci-machine/internal/host"
)

// Deadline is how long a scrape waits for a GPU. A GPU in good health answers
// within milliseconds, and Prometheus gives up on the whole scrape after 10 s.
const Deadline = 2 * time.Second

// Collector is all metrics of the exporter.
type Collector struct {
	root     host.Root
	source   Source
	version  string
	deadline func(dir string) <-chan time.Time // dir "" is the search for GPUs

	searches *flights[search]
	reads    *flights[Sample]
	known    atomic.Pointer[search] // the last search that worked
	ids      sync.Map               // Device without Index -> Identity, for one that hangs later
	desc     descriptions
	errors   *prometheus.CounterVec
}

// NewCollector reports on the GPUs that source lists, with files below root.
func NewCollector(root host.Root, source Source, version string) *Collector {
	return &Collector{
		root: root, source: source, version: version,
		deadline: func(string) <-chan time.Time { return time.After(Deadline) },
		searches: newFlights[search](), reads: newFlights[Sample](),
		desc: newDescriptions(), errors: newReadErrors(),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.desc.values {
		ch <- d
	}
	ch <- c.desc.info
	ch <- c.desc.up
	ch <- c.desc.build
	c.errors.Describe(ch)
}

// Collect implements prometheus.Collector. It returns after the deadlines at
// the latest, whatever the GPUs do, and may run several times at once.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.send(ch, c.desc.build, 1, c.version, runtime.Version())
	found := c.search()
	type pending struct {
		read     *flight[Sample]
		deadline <-chan time.Time
	}
	all := make([]pending, len(found.devices))
	whole := map[string]int{}         // Dir -> the partition that shows the sensors, which are the whole GPU's
	for i, d := range found.devices { // all start before the first is waited for
		if _, shown := whole[d.Dir]; !shown {
			whole[d.Dir] = i
		}
		all[i] = pending{c.read(d, whole[d.Dir] == i), c.deadline(d.Dir)}
	}
	up := make([]bool, len(all))
	for i, d := range found.devices {
		s, answered := all[i].read.wait(all[i].deadline)
		if !answered {
			c.count(strconv.Itoa(d.Index), Failure{File: all[i].read.where(), Errno: "timeout"})
		}
		up[i] = answered && s.Alive
		s.Alive = up[i] && up[whole[d.Dir]]
		s.Identity = c.remember(d, s.Identity, answered)
		c.report(ch, d, s, found.driver)
	}
	c.errors.Collect(ch)
}

// read starts reading a device. Failures are counted where they happen, so
// that scrapes that share one reading do not count them twice.
func (c *Collector) read(d Device, live bool) *flight[Sample] {
	key := d.Dir + "#" + strconv.Itoa(d.Partition)
	return c.reads.start(key, func(at *atomic.Pointer[string]) Sample {
		s := readSample(&files{root: c.root, at: at}, d, live)
		for _, f := range s.Failures {
			c.count(strconv.Itoa(d.Index), f)
		}
		return s
	})
}

// report sends the series of one device.
func (c *Collector) report(ch chan<- prometheus.Metric, d Device, s Sample, driver string) {
	up := 0.0
	if s.Alive {
		up = 1
	}
	labels := []string{strconv.Itoa(d.Index), s.Identity.UUID, d.PCI}
	c.send(ch, c.desc.up, up, labels...)
	for _, r := range s.Readings {
		c.send(ch, c.desc.values[r.Metric], r.Value, labels...)
	}
	c.send(ch, c.desc.info, 1, append(labels, d.Name, d.GFX, s.Identity.VBIOS, s.Identity.Serial,
		driver, strconv.Itoa(d.Partition))...)
}

// remember keeps a device's labels the same while it does not answer.
func (c *Collector) remember(d Device, id Identity, answered bool) Identity {
	key := d
	key.Index = 0 // neighbours may come and go
	if answered {
		c.ids.Store(key, id)
		return id
	}
	if before, ok := c.ids.Load(key); ok {
		return before.(Identity)
	}
	return Identity{UUID: uuid(d, "")}
}

func (c *Collector) count(gpu string, f Failure) {
	c.errors.WithLabelValues(gpu, f.File, f.Errno).Inc()
}

func (c *Collector) send(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
