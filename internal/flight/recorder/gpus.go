package recorder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/amdreader"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/signs"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// gpus reads the GPUs of tasks. GPUs without a task are not read.
type gpus struct {
	root     host.Root
	now      func() time.Time
	limit    *amdgpu.Limit
	devices  []gpu.Slot
	cards    cards
	dies     map[string]string // the other die of a package
	searched time.Time
	readers  map[string]*reader
	leases   pool.Report
	leased   time.Time
	looked   time.Time // for a scan of the users
	scanned  time.Time // of the last one
}

const (
	searchEvery = time.Minute
	slowEvery   = 30 * time.Second // for error counters, which ask the hardware
	leaseEvery  = 2 * time.Second
	// silent is the time without an answer after which a reading hangs.
	silent = 5 * time.Second
)

func (g *gpus) close() {
	for _, r := range g.readers {
		if r.busy.IsZero() { // one that hangs is never closed
			r.Close()
		}
	}
}

// search finds the AMD GPUs of the machine.
func (g *gpus) search() {
	if g.now().Sub(g.searched).Abs() < searchEvery {
		return
	}
	g.searched = g.now()
	found, err := gpu.Discover(g.root)
	if err != nil {
		return
	}
	g.devices = nil
	for _, one := range found.GPUsOf(gpu.VendorWith(gpu.Quarantine)) {
		g.devices = append(g.devices, one.Slot)
	}
	g.cards.add(g.devices, signs.Cards(g.root))
	g.dies = gpu.ReadDies(g.root, found.GPUs)
}

// of returns the GPUs of a container, by its mounts of their nodes and by its leases.
func (g *gpus) of(c *container) (all []taskrecord.GPU) {
	g.search()
	if g.now().Sub(g.leased).Abs() >= leaseEvery {
		g.leased = g.now()
		g.leases, _ = pool.LeaseFile.Read(g.root) // missing without leases
	}
	for _, d := range g.devices {
		l := g.leases.Find(d.Address())
		if c.node[d.Nodes.Render] && d.Nodes.Render != "" || slices.Contains(c.gpus, d.Address()) ||
			c.kind == lease.Task && l != nil && l.Held && l.Container == c.handle {
			all = append(all, taskrecord.GPU{Name: d.Address(), Index: d.Index, OtherDie: g.dies[d.Address()]})
		}
	}
	if len(all) > 0 {
		g.addMemory(all)
	}
	return all
}

// addMemory adds the owners of the GPUs' memory, from the record of quarantine, so that a
// verdict on a task and the decision on its GPU are never of different opinions. Samples of a
// partition have the memory of its card, so they are not compared.
func (g *gpus) addMemory(all []taskrecord.GPU) {
	r, err := quarantine.RecordFile.Read(g.root)
	if err != nil {
		return
	}
	for i := range all {
		if one := r.Find(all[i].Name); one != nil && one.Memory != nil && !one.Memory.Partition {
			m := one.Memory
			all[i].Memory = &taskrecord.MemoryBefore{Total: m.Total, Ended: m.Ended, Others: m.Taken(), Text: m.Text()}
		}
	}
}

// reader reads one GPU beside the looks, because a reading can hang in the kernel.
type reader struct {
	*amdreader.Reader
	result chan reading.State
	busy   time.Time // since when a reading is outstanding
	slow   time.Time // of the last reading of the error counters
}

// readGPUs reads the GPUs of all tasks that run, each once.
func (r *Recorder) readGPUs(now time.Time) {
	read := map[string]taskrecord.Sample{}
	signals := map[string][]string{}
	tasks := map[string]int64{}
	var used []string
	use := func(name string) {
		if !slices.Contains(used, name) {
			used = append(used, name)
			r.gpus.start(name, now)
		}
	}
	for _, c := range r.sorted() {
		if !c.recorded || c.done || c.counted {
			continue
		}
		cards := map[string]bool{}
		for _, g := range c.head.GPUs {
			if !c.ended.IsZero() { // its error counters once more
				if reader := r.gpus.readers[g.Name]; reader != nil && !reader.slow.After(c.ended) {
					reader.slow = time.Time{}
				}
				use(g.Name)
				continue
			}
			use(g.Name)
			if card := g.Card(); !cards[card] {
				cards[card] = true
				tasks[card]++
			}
			if g.OtherDie != "" {
				use(g.OtherDie)
			}
		}
	}
	for _, name := range used {
		read[name], signals[name] = r.gpus.finish(name, now)
	}
	share := r.newShares(now, len(used) > 0)
	for _, c := range r.containers {
		if !c.recorded || c.done || c.counted {
			continue
		}
		c.counted = !c.ended.IsZero() && r.gpus.answered(c, read)
		for _, g := range c.head.GPUs {
			s := read[g.Name]
			if !c.ended.IsZero() {
				r.noteHang(c, g.Name, signals[g.Name], now)
				if c.counted {
					c.addCounters(g.Name, s)
				}
				continue
			}
			s.Values = slices.Clone(s.Values)
			s.Values[taskrecord.Tasks] = tasks[g.Card()]
			if share != nil {
				share(c, g, s)
			}
			if g.OtherDie != "" {
				takePower(s, read[g.OtherDie])
			}
			c.record.GPUs[g.Name] = append(c.record.GPUs[g.Name], s)
			r.noteHang(c, g.Name, signals[g.Name], now)
		}
	}
}

// answered reports whether each GPU of an ended task was read since with its counters, or hangs.
func (g *gpus) answered(c *container, read map[string]taskrecord.Sample) bool {
	return !slices.ContainsFunc(c.head.GPUs, func(one taskrecord.GPU) bool {
		_, known := read[one.Name].Get(taskrecord.Alive)
		reader := g.readers[one.Name]
		return !known || reader != nil && reader.busy.IsZero() && !reader.slow.After(c.ended)
	})
}

// noteHang notes the begin of a hang.
func (r *Recorder) noteHang(c *container, gpu string, signals []string, now time.Time) {
	hanging := len(signals) > 0
	if hanging && !c.hanging[gpu] {
		r.note(c, taskrecord.Event{At: now, Kind: taskrecord.GPUHang, GPU: gpu, Detail: strings.Join(signals, ", ")})
	}
	c.hanging[gpu] = hanging
}

// addCounters adds the error counters of a reading after the end. The others are of a GPU that
// the task no longer has.
func (c *container) addCounters(gpu string, read taskrecord.Sample) {
	s := taskrecord.NewSample(c.ended, taskrecord.NumGPUCounters)
	for _, counter := range []int{taskrecord.Uncorrectable, taskrecord.Correctable, taskrecord.BadPages} {
		s.Values[counter] = read.Value(counter)
	}
	c.record.GPUs[gpu] = append(c.record.GPUs[gpu], s)
}

// takePower takes the power of a package from its other die, if this one reports none.
func takePower(s, other taskrecord.Sample) {
	_, power := s.Get(taskrecord.Power)
	_, sum := s.Get(taskrecord.EnergySum)
	if !power && !sum {
		s.Values[taskrecord.Power] = other.Value(taskrecord.Power)
		s.Values[taskrecord.EnergySum] = other.Value(taskrecord.EnergySum)
	}
}

// start starts a reading, unless one is outstanding.
func (g *gpus) start(name string, now time.Time) {
	r := g.readers[name]
	if r == nil {
		g.search()
		at := slices.IndexFunc(g.devices, func(d gpu.Slot) bool { return d.Address() == name })
		if at < 0 {
			return
		}
		from := amdreader.New(g.root, g.devices[at], g.limit, g.now)
		r = &reader{Reader: from, result: make(chan reading.State, 1)}
		g.readers[name] = r
	}
	if !r.busy.IsZero() {
		return
	}
	r.busy = now
	slow := now.Sub(r.slow).Abs() >= slowEvery
	if slow {
		r.slow = now
	}
	go func() {
		if slow {
			r.Poll()
		}
		r.result <- r.Read(reading.Seen{})
	}()
}

// answerTime is the longest wait of a look for one GPU.
const answerTime = 200 * time.Millisecond

// finish returns the sample of a reading, and the signals of a hang.
func (g *gpus) finish(name string, now time.Time) (taskrecord.Sample, []string) {
	s := taskrecord.NewSample(now, taskrecord.NumGPUCounters)
	r := g.readers[name]
	if r == nil {
		s.Values[taskrecord.Alive] = 0
		return s, nil
	}
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	select {
	case state := <-r.result:
		r.busy = time.Time{}
		j := health.Assess(&state)
		fill(&s, &state, len(j.Signals()) > 0)
		return s, j.Signals()
	case <-timer.C:
	}
	if now.Sub(r.busy).Abs() < silent {
		return s, nil
	}
	s.Values[taskrecord.Alive], s.Values[taskrecord.Hanging] = 0, 1
	return s, []string{fmt.Sprintf("%s: %s", reading.SignalTimeout, r.At())}
}

// fill converts a state.
func fill(s *taskrecord.Sample, state *reading.State, hanging bool) {
	set := func(counter int, n amdgpu.Number, factor float64) {
		if n.Known && n.Value >= 0 {
			s.Values[counter] = int64(n.Value*factor + .5)
		}
	}
	flag := func(counter int, v bool) {
		s.Values[counter] = 0
		if v {
			s.Values[counter] = 1
		}
	}
	flag(taskrecord.Alive, state.Alive)
	flag(taskrecord.Asleep, state.Suspended())
	flag(taskrecord.Hanging, hanging)
	for domain, counter := range map[string]int{"gfx": taskrecord.Clock, "mem": taskrecord.MemoryClock} {
		fastest := 0.
		for _, c := range state.Clocks {
			if c.Domain == domain {
				fastest = max(fastest, c.Hertz)
			}
		}
		set(counter, amdgpu.Number{Value: fastest, Known: fastest > 0}, 1e-6)
	}
	set(taskrecord.Busy, state.Activity.Graphics, 1000)
	set(taskrecord.MemoryBusy, state.Activity.Memory, 1000)
	t, ok := state.Nearest()
	if !ok {
		t = state.Temperature
	}
	set(taskrecord.Temperature, t.Now, 10)
	set(taskrecord.TemperatureLimit, t.Critical, 10)
	set(taskrecord.Power, state.Power.Now, 1000)
	set(taskrecord.EnergySum, state.Power.Energy, 1000)
	set(taskrecord.VideoUsed, state.ProgramMemory().Used, 1)
	set(taskrecord.VideoSize, state.ProgramMemory().Total, 1)
	set(taskrecord.Thermal, state.Throttling.ThermalShare, 1000)
	if e := state.RAS.Errors; e != nil {
		s.Values[taskrecord.Uncorrectable] = int64(e.Uncorrectable)
		s.Values[taskrecord.Correctable] = int64(e.Correctable)
	}
	if b := state.RAS.BadPages; b != nil {
		s.Values[taskrecord.BadPages] = int64(b.Total())
	}
}
