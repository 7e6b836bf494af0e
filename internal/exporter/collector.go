package exporter

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/sysfile"
	"concourse-ci-machine/internal/host"
)

// Deadline is how long a scrape waits for a GPU. A GPU in good health answers
// within milliseconds, and Prometheus gives up on the whole scrape after 10 s.
const Deadline = 2 * time.Second

// Options are what a collector leaves out or adds.
type Options struct {
	Unit          string        // Juju's name of the unit, for people; "" where there is none
	DCGM          bool          // repeat values under NVIDIA's names
	PCIeBandwidth bool          // read pcie_bw in the background
	RASInterval   time.Duration // between readings of error counters and limits

	Usage           bool          // tell which containers use the GPUs
	UsageInterval   time.Duration // between looks at the processes
	UsageContainers int           // shown for each GPU
	UsageReport     string        // path of what UsageReporter writes; "": this process looks itself

	Leases string // path of the LeaseReport; "": the GPUs are not leased
}

// Collector is all metrics of the exporter. It may be used by several
// goroutines at once.
type Collector struct {
	root     host.Root
	source   Source
	version  string
	options  Options
	deadline func(dir string) <-chan time.Time // tests' own; dir "" is the search for GPUs
	now      func() time.Time
	limit    *sysfile.Limit
	families []expo.Family
	writer   *expo.Writer
	build    *expo.Series
	total    *expo.Series

	searches  *flights[search]
	reads     *flights[Sample]
	polls     *flights[[]Failure]
	known     atomic.Pointer[search] // the last search that worked
	again     atomic.Bool            // search, though nothing changed
	watch     *watch
	dumpClass string // as this process opens it
	traffic   traffic
	users     *users // nil: not wanted
	kernel    kernelLog
	past      record

	buffers sync.Pool // *[]expo.Sample, of a whole scrape
	values  sync.Pool // *[]expo.Sample, of one device

	mu     sync.Mutex
	cards  map[flightKey]*card
	ids    map[Device]Identity
	silent map[flightKey]*hangState // of GPUs that did not answer
	errors map[[3]string]float64    // gpu, file, errno
}

// NewCollector reports on the GPUs that source lists, with files below root.
func NewCollector(root host.Root, source Source, version string, o Options) *Collector {
	c := &Collector{
		root: root, source: source, version: version, options: o,
		now:   time.Now,
		limit: sysfile.NewLimit(), families: families(),
		searches: newFlights[search](), reads: newFlights[Sample](), polls: newFlights[[]Failure](),
		cards: map[flightKey]*card{}, ids: map[Device]Identity{}, silent: map[flightKey]*hangState{}, errors: map[[3]string]float64{},
	}
	if o.Usage {
		c.users = newUsers(root, o, func() time.Time { return c.now() })
	}
	c.watch, c.dumpClass = newWatch(root), root.Path("/sys/class/devcoredump")
	c.writer = expo.NewWriter(c.families)
	build := expo.NewSeries(buildInfo, c.families[buildInfo].Name, label("version", version), label("goversion", runtime.Version()))
	number := expo.NewSeries(gpus, c.families[gpus].Name)
	c.build, c.total = &build, &number
	return c
}

// report is one scrape: what was found, and each device's sample.
type report struct {
	found   search
	samples []Sample
	up      []bool
	reads   []*flight[Sample] // nil for those that did not answer
}

// done lets go of the samples, whose memory serves the next scrapes.
func (c *Collector) done(r report) {
	for i, f := range r.reads {
		if f != nil && f.last() {
			c.values.Put(r.samples[i].memory)
		}
	}
}

// collect returns after the deadlines at the latest, whatever the GPUs do.
func (c *Collector) collect() report {
	passed := make(chan time.Time) // one timer for all: closed at the deadline
	timer := time.AfterFunc(Deadline, func() { close(passed) })
	defer timer.Stop()
	deadline := c.deadline
	if deadline == nil {
		deadline = func(string) <-chan time.Time { return passed }
	}
	r := report{found: c.search(deadline(""))}
	devices := r.found.devices
	type pending struct {
		read     *flight[Sample]
		deadline <-chan time.Time
	}
	all := make([]pending, len(devices))
	work := batch{work: make([]func(), 0, len(devices))}
	whole := map[string]int{}   // Dir -> the partition that shows the sensors, which are the whole GPU's
	for i, d := range devices { // all start before the first is waited for
		if _, shown := whole[d.Dir]; !shown {
			whole[d.Dir] = i
		}
		read, run := c.read(d, whole[d.Dir] == i, r.found)
		if run != nil {
			work.work = append(work.work, run)
		}
		all[i].read = read
	}
	work.run()
	defer work.stop()
	for i, d := range devices {
		all[i].deadline = deadline(d.Dir)
	}
	r.samples, r.up, r.reads = make([]Sample, len(all)), make([]bool, len(all)), make([]*flight[Sample], len(all))
	for i, d := range devices {
		s, answered := all[i].read.wait(all[i].deadline)
		if !answered {
			where := all[i].read.where()
			c.count(strconv.Itoa(d.Index), Failure{File: where, Errno: signalTimeout})
			id := c.remember(d, Identity{}, false)
			s = silent(newHeads(c.families, d, id, r.found.driver), id, where, c.missed(d))
		} else {
			c.remember(d, s.Identity, true)
			r.reads[i] = all[i].read
		}
		r.samples[i] = s
		r.up[i] = answered && s.Alive && (whole[d.Dir] == i || r.up[whole[d.Dir]])
	}
	return r
}

// key names a device among the cards.
func key(d Device) flightKey { return flightKey{d.Dir, d.Partition} }

// card is the one of the device, made anew when something about it changed.
func (c *Collector) card(d Device, driver string) *card {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key(d)
	have := c.cards[k]
	if have != nil && have.device == d && have.driver == driver {
		return have
	}
	fresh := newCard(c, d, driver)
	if have != nil {
		have.retire()
	}
	c.cards[k] = fresh
	return fresh
}

// keep drops the cards of devices that are gone.
func (c *Collector) keep(devices []Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	here := map[flightKey]bool{}
	for _, d := range devices {
		here[key(d)] = true
	}
	for k, card := range c.cards {
		if !here[k] {
			card.retire()
			delete(c.cards, k)
			delete(c.silent, k)
		}
	}
	maps.DeleteFunc(c.ids, func(d Device, _ Identity) bool { return !here[key(d)] })
}

// read is the reading of a device, with what is to be run for it if nobody
// reads it already. Failures are counted where they happen, so
// that scrapes that share one reading do not count them twice.
func (c *Collector) read(d Device, live bool, found search) (*flight[Sample], func()) {
	card := c.card(d, found.driver)
	return c.reads.join(key(d), &card.at, func() Sample {
		card.hold()
		defer card.release()
		card.hangs.dumped = found.dumps[d.Dir]
		c.told(card, d)
		memory, _ := c.values.Get().(*[]expo.Sample)
		if memory == nil {
			memory = new([]expo.Sample)
		}
		s := card.read(live, memory)
		c.countAll(d, s.Failures)
		return s
	})
}

// told brings a card what was seen of its GPU while nobody read it.
func (c *Collector) told(card *card, d Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missed := c.silent[key(d)]; missed != nil {
		card.hangs.total += missed.total
		card.hangs.events = append(card.hangs.events, missed.events...)
		delete(c.silent, key(d))
	}
	if at, ok := c.kernel.of(d.PCI); ok && at.Add(afterEvent).After(c.now()) {
		card.hangs.note(signalKernel, at)
	}
}

// missed counts a GPU that does not answer: one event, however often it is
// asked. It returns the events that are known without asking the card.
func (c *Collector) missed(d Device) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.silent[key(d)]
	if h == nil {
		h = &hangState{}
		h.count(c.now())
		c.silent[key(d)] = h
	}
	return h.total
}

// remember keeps a device's labels the same while it does not answer.
func (c *Collector) remember(d Device, id Identity, answered bool) Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.Index = 0 // neighbours may come and go
	if answered {
		c.ids[d] = id
		return id
	}
	if before, ok := c.ids[d]; ok {
		return before
	}
	return Identity{UUID: uuid(d, "")}
}

func (c *Collector) countAll(d Device, failures []Failure) {
	for _, f := range failures {
		c.count(strconv.Itoa(d.Index), f)
	}
}

func (c *Collector) count(gpu string, f Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors[[3]string{gpu, f.File, f.Errno}]++
}

// Write appends a scrape in the format.
func (c *Collector) Write(b []byte, format expo.Format) []byte {
	r := c.collect()
	all, _ := c.buffers.Get().(*[]expo.Sample)
	if all == nil {
		all = new([]expo.Sample)
	}
	*all = c.samples((*all)[:0], r)
	b = c.writer.Append(b, format, *all)
	clear(*all) // or it would keep the series of GPUs that are gone
	c.buffers.Put(all)
	c.done(r)
	return b
}

// samples appends all series of a scrape, each family's in the order of the GPUs.
func (c *Collector) samples(out []expo.Sample, r report) []expo.Sample {
	out = append(out, expo.Sample{Series: c.build, Value: 1}, expo.Sample{Series: c.total, Value: float64(len(r.samples))})
	leases, look := c.readLeases(), c.lastUsers()
	for i, s := range r.samples {
		out = append(out, expo.Sample{Series: s.heads.up, Value: oneIf(r.up[i])})
		if r.up[i] || len(s.vitals.Hang) > 0 || !s.Alive {
			out = append(out, s.Values...)
		}
		out = append(out, expo.Sample{Series: s.heads.info, Value: 1})
		out = c.traffic.add(out, s.heads.labels, r.found.devices[i], c.options.DCGM)
		out = c.users.add(out, look, s.heads.labels, r.found.devices[i])
		out = c.addLease(out, leases, s.heads.labels, r.found.devices[i])
	}
	out = c.addLeases(out, leases)
	out = addLeftOut(out, look, c.families)
	if v, ok := r.found.match.value(); ok {
		s := expo.NewSeries(driverMatch, c.families[driverMatch].Name,
			label("running", r.found.match.running), label("selected", r.found.match.selected))
		out = append(out, expo.Sample{Series: &s, Value: v})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(c.errors), func(a, b [3]string) int { return slices.CompareFunc(a[:], b[:], strings.Compare) }) {
		s := expo.NewSeries(readErrors, c.families[readErrors].Name, label("gpu", k[0]), label("file", k[1]), label("errno", k[2]))
		out = append(out, expo.Sample{Series: &s, Value: c.errors[k]})
	}
	return out
}
