// Package monitor watches all GPUs of a machine. It finds the GPUs, reads each under a
// deadline, collects their users and leases, keeps their recent past, and returns
// everything as one Snapshot. A GPU with a hanging driver does not delay the others. The
// package never formats metrics and serves no HTTP.
package monitor

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/deadline"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

// Options select what a monitor reads beyond the GPUs themselves.
type Options struct {
	PCIeBandwidth bool          // read pcie_bw in the background
	RASInterval   time.Duration // time between readings of error counters and limits

	Usage           bool          // list the containers that use the GPUs
	UsageInterval   time.Duration // time between scans of the processes
	UsageContainers int           // containers shown for each GPU
	UsageReport     string        // path of the file that ReportUsers writes; "": this process scans itself

	Leases  string // path of the pool.Report; "": the GPUs are not leased
	Service string // path of quarantine's Record; "": GPUs are never quarantined
	Disk    string // path of a folder on the reported file system; "": none
	Tasks   string // path of the verdict.Report; "": no tasks are recorded
	NVIDIA  string // path of the file that nvidiagpu.Watch writes; "": nvidia-smi is not used

	Now func() time.Time // nil: time.Now
	// Deadlines returns the deadline for reading a GPU's folder, or for the search with dir
	// "". nil: api.Deadline for all.
	Deadlines func(dir string) <-chan time.Time
}

// Snapshot holds the findings of one time.
type Snapshot struct {
	At      time.Time
	GPUs    []GPU // by index
	Module  Module
	Users   *usage.Result // nil: disabled, or too old
	Disk    *Disk         // nil: disabled, or missing
	Tasks   *verdict.Report
	Reports []ReadErrors
	pool.Records
}

// GPU describes one GPU, or one partition of a GPU.
type GPU struct {
	pool.Record
	Driver string // version of the driver
	Up     bool   // it answered in time with values, or is suspended
	Silent bool   // it did not answer: State has only its identity and its hangs
	Shared bool   // another partition of the GPU shows the sensors
	// Socket is the activity of a whole divided GPU. State.Activity.Graphics is then the
	// activity of the partition. Unknown if the GPU is not divided or if Shared.
	Socket  amdgpu.Number
	State   reading.State
	Health  health.Judgement // of the whole GPU, for a partition too
	Traffic *Traffic
	Users   []usage.Row
	// Processes have memory of the GPU, the largest first.
	Processes []usage.Process
}

// ReadErrors counts the readings of a GPU's file without a usable value since the start.
type ReadErrors struct {
	GPU string // index; "" for files that belong to no GPU
	amdgpu.Failure
	Count float64
}

// Monitor reads GPUs. Its methods may be called by several goroutines at once.
type Monitor struct {
	root    host.Root
	source  Source
	options Options
	now     func() time.Time
	limit   *amdgpu.Limit

	searches  deadline.Group[struct{}, search]
	known     atomic.Pointer[search]
	refresh   atomic.Bool // search even if the lists have not changed
	watch     *watch      // used by searches only
	dumpClass string
	reads     deadline.Group[string, reading.State] // by gpu.Slot.Address, as polls and readers
	polls     deadline.Group[string, []amdgpu.Failure]
	polled    time.Time // by WriteReport
	traffic   traffic
	users     *users // nil: disabled
	nvidia    cachedReport[nvidiagpu.Report]
	tasks     cachedReport[verdict.Report]
	kernel    kernelLog
	histories histories

	mu      sync.Mutex
	readers map[string]reader
	ids     map[gpu.Slot]amdgpu.Identity
	errors  map[errorKey]float64
}

type errorKey struct{ gpu, file, errno string }

// New returns a monitor of the GPUs that source lists, with files below root.
func New(root host.Root, source Source, o Options) *Monitor {
	m := &Monitor{
		root: root, source: source, options: o, now: o.Now, limit: amdgpu.NewLimit(),
		readers: map[string]reader{}, ids: map[gpu.Slot]amdgpu.Identity{}, errors: map[errorKey]float64{},
	}
	if m.now == nil {
		m.now = time.Now
	}
	if o.Usage {
		m.users = &users{scanner: usage.New(root, usage.Options{Containers: o.UsageContainers}, m.now),
			maxAge: 4 * o.UsageInterval}
	}
	m.watch, m.dumpClass = newWatch(root), root.Path("/sys/class/devcoredump")
	return m
}

// Snapshot reads all GPUs. It returns after the two deadlines at the latest, even if GPUs
// hang: the GPUs have their own, because one that hangs can use up that of the search.
func (m *Monitor) Snapshot() Snapshot {
	found := m.searchInTime()
	late, stop := m.deadlines()
	defer stop()
	s := Snapshot{Module: found.module, GPUs: make([]GPU, len(found.devices))}
	reads := make([]*deadline.Work[reading.State], len(found.devices))
	work := batch{work: make([]func(), 0, len(reads))}
	whole := map[string]*GPU{}        // Dir -> the partition that shows the sensors of the whole GPU
	for i, d := range found.devices { // start all before waiting for the first
		g := &s.GPUs[i]
		g.Slot, g.Driver, g.Shared = d, found.drivers[d.Vendor], whole[d.Sysfs] != nil
		if !g.Shared {
			whole[d.Sysfs] = g
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
		waits[i] = late(d.Sysfs)
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		m.await(g, found.compute[i], reads[i], waits[i])
		if first := whole[g.Slot.Sysfs]; g.Shared {
			if g.Up = g.Up && first.Up; !g.Silent { // a silent partition keeps its own judgement
				g.Health = first.Health
			}
		}
	}
	divide(s.GPUs)
	m.addContext(&s)
	return s
}

// searchInTime finds the GPUs before the deadline of a search.
func (m *Monitor) searchInTime() search {
	late, stop := m.deadlines()
	defer stop()
	return m.search(late(""))
}

// deadlines returns the deadlines of one pass over all GPUs. All share one timer, which
// closes the channel.
func (m *Monitor) deadlines() (late func(dir string) <-chan time.Time, stop func() bool) {
	passed := make(chan time.Time)
	timer := time.AfterFunc(api.Deadline, func() { close(passed) })
	if m.options.Deadlines != nil {
		return m.options.Deadlines, timer.Stop
	}
	return func(string) <-chan time.Time { return passed }, timer.Stop
}

// await waits for a reading. The search has read compute.
func (m *Monitor) await(g *GPU, compute reading.Compute, read *deadline.Work[reading.State], late <-chan time.Time) {
	state, answered := deadline.Wait(read, late)
	if answered {
		state.Compute = compute
		g.State, g.Up, g.Health = state, state.Alive, health.Assess(&state)
		m.setIdentity(g.Slot, state.Identity)
		g.Slot.Model = cmp.Or(state.Identity.Model, g.Slot.Model)
		return
	}
	r := m.reader(g.Slot)
	file, now := r.At(), m.now()
	m.count(strconv.Itoa(g.Slot.Index), amdgpu.Failure{File: file, Errno: reading.SignalTimeout})
	g.Silent, g.Health = true, health.Silent(file)
	g.State = reading.State{State: amdgpu.State{Identity: m.lastIdentity(g.Slot)}, Hangs: r.Missed(now),
		Compute: compute}
	g.Slot.Model = cmp.Or(g.State.Identity.Model, g.Slot.Model)
}

// addContext adds users, leases and records to the readings.
func (m *Monitor) addContext(s *Snapshot) {
	s.At, s.Users, s.Leases, s.Service = m.now(), m.lastUsers(), m.readLeases(), m.readService()
	s.Disk, s.Tasks = readDisk(m.root, m.options.Disk), m.Tasks()
	for i := range s.GPUs {
		g := &s.GPUs[i]
		g.Traffic, g.Record = m.traffic.find(g.Slot), s.Records.Of(g.Slot, s.At)
		if s.Users != nil {
			if u := s.Users.Find(g.Slot); u != nil {
				g.Users, g.Processes = u.Rows, u.Processes
			}
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

// reader reads one GPU repeatedly, with one reading at a time. Missed records a reading
// that did not return in time. Poll reads the values of the timer.
type reader interface {
	Device() gpu.Slot
	Read(seen reading.Seen) reading.State
	ReadPartition() reading.State // without what another partition of the GPU reports
	Poll() []amdgpu.Failure
	Missed(now time.Time) reading.Hangs
	At() string
	Reopen()
	Close()
}

// reader returns the reader of the device, and replaces it if the device changed.
func (m *Monitor) reader(d gpu.Slot) reader {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.readers[d.Address()]
	if have != nil && have.Device() == d {
		return have
	}
	if have != nil {
		go have.Close() // waits until its reading has ended
	}
	fresh := vendors[d.Vendor].reader(m, d)
	m.readers[d.Address()] = fresh
	return fresh
}

// dropReaders drops the readers of removed devices.
func (m *Monitor) dropReaders(devices []gpu.Slot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here := map[string]bool{}
	for _, d := range devices {
		here[d.Address()] = true
	}
	for k, r := range m.readers {
		if !here[k] {
			go r.Close()
			delete(m.readers, k)
		}
	}
	maps.DeleteFunc(m.ids, func(d gpu.Slot, _ amdgpu.Identity) bool { return !here[d.Address()] })
}

// read returns the reading of a GPU, with the function to run unless the GPU is being read
// already. Failures are counted inside, so that snapshots that share a reading count them
// once.
func (m *Monitor) read(g *GPU, found search) (*deadline.Work[reading.State], func()) {
	d, shared := g.Slot, g.Shared
	r := m.reader(d)
	return m.reads.Join(d.Address(), func() reading.State {
		var s reading.State
		if shared {
			s = r.ReadPartition()
		} else {
			seen := m.kernel.find(d, m.now())
			seen.Dumped = found.dumps[d.Sysfs]
			s = r.Read(seen)
		}
		m.countAll(d, s.Failures)
		return s
	})
}

// setIdentity keeps the identity of a device that answered, for lastIdentity.
func (m *Monitor) setIdentity(d gpu.Slot, id amdgpu.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.Index = 0 // the index changes if neighbours are added or removed
	m.ids[d] = id
}

// lastIdentity keeps a device's labels stable while it does not answer.
func (m *Monitor) lastIdentity(d gpu.Slot) amdgpu.Identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.Index = 0
	if before, ok := m.ids[d]; ok {
		return before
	}
	return amdgpu.Identity{UUID: reading.AMD(d).UUID("")}
}

func (m *Monitor) countAll(d gpu.Slot, failures []amdgpu.Failure) {
	for _, f := range failures {
		m.count(strconv.Itoa(d.Index), f)
	}
}

func (m *Monitor) count(gpu string, f amdgpu.Failure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors[errorKey{gpu, f.File, f.Errno}]++
}

// Temperature returns the temperature to show: of the sensor nearest its limit, otherwise
// of the die.
func (g *GPU) Temperature() amdgpu.Temperature {
	if t, ok := g.State.Nearest(); ok && !g.State.Suspended() {
		return t
	}
	return g.State.Temperature
}
