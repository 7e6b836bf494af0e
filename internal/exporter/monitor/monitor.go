// Package monitor watches all GPUs of a machine: it finds them, reads each under
// a deadline, so that none whose driver hangs holds up the others, looks at who uses
// and leases them beside the readings, keeps their recent past, and hands all of it out
// as one Snapshot. It knows no metric and no HTTP.
package monitor

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd/amdgpu"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
	"concourse-ci-machine/internal/gpu/sysfile"
	"concourse-ci-machine/internal/gpu/usage"
	"concourse-ci-machine/internal/pool/quarantine"
)

// Deadline is how long a snapshot waits for a GPU. A GPU in good health answers
// within milliseconds, and Prometheus gives up on the whole scrape after 10 s.
const Deadline = 2 * time.Second

// Options are what a monitor looks at besides.
type Options struct {
	PCIeBandwidth bool          // read pcie_bw in the background
	RASInterval   time.Duration // between readings of error counters and limits

	Usage           bool          // tell which containers use the GPUs
	UsageInterval   time.Duration // between looks at the processes
	UsageContainers int           // shown for each GPU
	UsageReport     string        // path of what ReportUsers writes; "": this process looks itself

	Leases  string // path of the LeaseReport; "": the GPUs are not leased
	Service string // path of quarantine's Record; "": nobody withholds GPUs
	Disk    string // path of the folder whose file system is told of; "": none
	NVIDIA  string // path of what nvidiagpu.Watch writes; "": nvidia-smi is not asked

	Now func() time.Time // nil: time.Now
	// Deadlines are those of reading what lies in a GPU's folder, and of the search for
	// GPUs, whose folder is "". nil: Deadline for all.
	Deadlines func(dir string) <-chan time.Time
}

// Snapshot is what was found at one time.
type Snapshot struct {
	At      time.Time
	GPUs    []GPU // by index
	Module  Module
	Users   *usage.Result      // nil: not looked for, or too old
	Leases  *LeaseReport       // nil: not leased, or not told
	Service *quarantine.Record // nil: not told
	Disk    *Disk              // nil: not asked for, or not there
	Reports []ReadErrors
}

// GPU is one GPU, or one partition of it.
type GPU struct {
	Device amdgpu.Device
	Driver string // version of the driver
	Up     bool   // it answered in time, and with values, or sleeps
	Silent bool   // it did not answer: State has its identity and its hangs alone
	Shared bool   // the sensors are shown by another partition of the GPU
	// Socket is how busy the whole of a divided GPU is, where State.Activity.Graphics is
	// the partition's own; not known where the GPU is not divided, and where Shared.
	Socket  amdgpu.Number
	State   amdgpu.State
	Health  health.Judgement // of a partition its GPU's
	Traffic *Traffic
	Users   []usage.Row
	Lease   *LeasedGPU
	Service *quarantine.GPU // nil: not told
}

// ReadErrors counts the files of a GPU that had no usable value since the start.
type ReadErrors struct {
	GPU string // index; "" for what is no GPU's
	amdgpu.Failure
	Count float64
}

// Monitor may be used by several goroutines at once.
type Monitor struct {
	root    host.Root
	source  Source
	options Options
	now     func() time.Time
	limit   *sysfile.Limit

	searches  *flights[search]
	known     atomic.Pointer[search]
	again     atomic.Bool // search, whatever the lists say
	watch     *watch      // in a search only
	dumpClass string
	reads     *flights[amdgpu.State]
	polls     *flights[[]amdgpu.Failure]
	traffic   traffic
	users     *users // nil: not wanted
	nvidia    kept[nvidiagpu.Report]
	kernel    kernelLog
	past      record

	mu      sync.Mutex
	readers map[flightKey]reader
	ids     map[amdgpu.Device]amdgpu.Identity
	errors  map[errorKey]float64
}

type errorKey struct{ gpu, file, errno string }

// New watches the GPUs that source lists, with files below root.
func New(root host.Root, source Source, o Options) *Monitor {
	m := &Monitor{
		root: root, source: source, options: o, now: o.Now, limit: sysfile.NewLimit(),
		searches: newFlights[search](), reads: newFlights[amdgpu.State](), polls: newFlights[[]amdgpu.Failure](),
		readers: map[flightKey]reader{}, ids: map[amdgpu.Device]amdgpu.Identity{}, errors: map[errorKey]float64{},
	}
	if m.now == nil {
		m.now = time.Now
	}
	if o.Usage {
		m.users = newUsers(root, o, m.now)
	}
	m.watch, m.dumpClass = newWatch(root), root.Path("/sys/class/devcoredump")
	return m
}

// Snapshot returns after the deadlines at the latest, whatever the GPUs do.
func (m *Monitor) Snapshot() Snapshot {
	deadline, stop := m.deadlines()
	defer stop()
	found := m.search(deadline(""))
	s := Snapshot{Module: found.module, GPUs: make([]GPU, len(found.devices))}
	reads := make([]*flight[amdgpu.State], len(found.devices))
	work := batch{work: make([]func(), 0, len(reads))}
	whole := map[string]*GPU{}        // Dir -> the partition that shows the sensors, which are the whole GPU's
	for i, d := range found.devices { // all start before the first is waited for
		g := &s.GPUs[i]
		g.Device, g.Driver, g.Shared = d, found.drivers[d.Vendor], whole[d.Dir] != nil
		if !g.Shared {
			whole[d.Dir] = g
		}
		var run func()
		if reads[i], run = m.read(g, found); run != nil {
			work.work = append(work.work, run)
		}
	}
	work.run()
	defer work.stop()
	waits := make([]<-chan time.Time, len(reads))
	for i, d := range found.devices {
		waits[i] = deadline(d.Dir)
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		m.take(g, reads[i], waits[i])
		if first := whole[g.Device.Dir]; g.Shared {
			if g.Up = g.Up && first.Up; !g.Silent { // or it has a judgement of its own
				g.Health = first.Health
			}
		}
	}
	divide(s.GPUs)
	m.accompany(&s)
	return s
}

// deadlines are those of one look at all GPUs: one timer for all, at whose end the channel
// is closed.
func (m *Monitor) deadlines() (of func(dir string) <-chan time.Time, stop func() bool) {
	passed := make(chan time.Time)
	timer := time.AfterFunc(Deadline, func() { close(passed) })
	if m.options.Deadlines != nil {
		return m.options.Deadlines, timer.Stop
	}
	return func(string) <-chan time.Time { return passed }, timer.Stop
}

// take waits for a reading.
func (m *Monitor) take(g *GPU, read *flight[amdgpu.State], deadline <-chan time.Time) {
	state, answered := read.wait(deadline)
	if answered {
		g.State, g.Up, g.Health = state, state.Alive, health.Assess(&state)
		m.remember(g.Device, state.Identity, true)
		g.Device.Name = cmp.Or(state.Identity.Model, g.Device.Name)
		return
	}
	r := m.reader(g.Device)
	file, now := r.At(), m.now()
	m.count(strconv.Itoa(g.Device.Index), amdgpu.Failure{File: file, Errno: amdgpu.SignalTimeout})
	g.Silent, g.Health = true, health.Silent(file)
	g.State = amdgpu.State{Identity: m.remember(g.Device, amdgpu.Identity{}, false), Hangs: r.Missed(now)}
	g.Device.Name = cmp.Or(g.State.Identity.Model, g.Device.Name)
}

// accompany adds what was seen beside the readings.
func (m *Monitor) accompany(s *Snapshot) {
	s.At, s.Users, s.Leases, s.Service = m.now(), m.lastUsers(), m.readLeases(), m.readService()
	s.Disk = readDisk(m.root, m.options.Disk)
	for i := range s.GPUs {
		g := &s.GPUs[i]
		g.Traffic, g.Lease = m.traffic.of(g.Device), s.Leases.of(g.Device, s.At)
		if s.Users != nil {
			g.Users = s.Users.Of(used(g.Device))
		}
		if s.Service != nil {
			g.Service = s.Service.Find(gpu.Slot(g.Device.PCI, g.Device.Partition))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, n := range m.errors {
		s.Reports = append(s.Reports, ReadErrors{k.gpu, amdgpu.Failure{File: k.file, Errno: k.errno}, n})
	}
	slices.SortFunc(s.Reports, func(a, b ReadErrors) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.File, b.File), cmp.Compare(a.Errno, b.Errno))
	})
}

// reader reads one GPU, again and again: no two readings at once. Missed notes one that
// did not come back, and Poll is what is read on the timer.
type reader interface {
	Device() amdgpu.Device
	Read(whole bool, seen amdgpu.Seen) amdgpu.State
	Poll() []amdgpu.Failure
	Missed(now time.Time) amdgpu.Hangs
	At() string
	Reopen()
	Close()
}

// key names a device among the readers.
func key(d amdgpu.Device) flightKey { return flightKey{d.Dir, d.Partition} }

// reader is the one of the device, made anew when something about it changed.
func (m *Monitor) reader(d amdgpu.Device) reader {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.readers[key(d)]
	if have != nil && have.Device() == d {
		return have
	}
	if have != nil {
		go have.Close() // once nobody reads
	}
	var fresh reader = amdgpu.NewReader(m.root, d, m.limit, m.now)
	if d.Vendor == gpu.NVIDIA {
		fresh = nvidiagpu.NewReader(m.root, d, m.nvidiaReport, m.now)
	}
	m.readers[key(d)] = fresh
	return fresh
}

// keep drops the readers of devices that are gone.
func (m *Monitor) keep(devices []amdgpu.Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here := map[flightKey]bool{}
	for _, d := range devices {
		here[key(d)] = true
	}
	for k, r := range m.readers {
		if !here[k] {
			go r.Close()
			delete(m.readers, k)
		}
	}
	maps.DeleteFunc(m.ids, func(d amdgpu.Device, _ amdgpu.Identity) bool { return !here[key(d)] })
}

// read is the reading of a GPU, with what is to be run for it if nobody reads it
// already. Failures are counted where they happen, so that snapshots that share one
// reading do not count them twice.
func (m *Monitor) read(g *GPU, found search) (*flight[amdgpu.State], func()) {
	d, whole := g.Device, !g.Shared
	r := m.reader(d)
	return m.reads.join(key(d), func() amdgpu.State {
		seen := m.kernel.of(d.PCI)
		seen.Dumped = found.dumps[d.Dir]
		s := r.Read(whole, seen)
		m.countAll(d, s.Failures)
		return s
	})
}

// remember keeps a device's labels the same while it does not answer.
func (m *Monitor) remember(d amdgpu.Device, id amdgpu.Identity, answered bool) amdgpu.Identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.Index = 0 // neighbours may come and go
	if answered {
		m.ids[d] = id
		return id
	}
	if before, ok := m.ids[d]; ok {
		return before
	}
	return amdgpu.Identity{UUID: amdgpu.UUID(d, "")}
}

func (m *Monitor) countAll(d amdgpu.Device, failures []amdgpu.Failure) {
	for _, f := range failures {
		m.count(strconv.Itoa(d.Index), f)
	}
}

func (m *Monitor) count(gpu string, f amdgpu.Failure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors[errorKey{gpu, f.File, f.Errno}]++
}

// Temperature is the one to show: that of the sensor nearest its limit, else the die's.
func (g *GPU) Temperature() amdgpu.Temperature {
	if t, ok := g.State.Nearest(); ok && !g.State.Suspended() {
		return t
	}
	return g.State.Temperature
}
