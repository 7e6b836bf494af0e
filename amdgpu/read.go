package amdgpu

import (
	"path"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// attributes holds the device's files that every reading reads.
type attributes struct {
	status                        *sysfile.File
	busy, memoryBusy, videoBusy   *sysfile.File
	vram, visible, gtt            poolFiles
	table, partition              *sysfile.File
	linkSpeed, linkWidth, replays *sysfile.File
}

type poolFiles struct{ used, total *sysfile.File }

// newAttributes opens the files. slot is the directory of the device at the GPU's slot.
func newAttributes(set *sysfile.Set, d Device, slot string) *attributes {
	file := func(name string) *sysfile.File { return set.File(path.Join(d.Dir, name)) }
	pool := func(kind string) poolFiles {
		return poolFiles{file("mem_info_" + kind + "_used"), file("mem_info_" + kind + "_total")}
	}
	a := &attributes{
		status: file("power/runtime_status"),
		busy:   file("gpu_busy_percent"), memoryBusy: file("mem_busy_percent"), videoBusy: file("vcn_busy_percent"),
		vram: pool("vram"), visible: pool("vis_vram"), gtt: pool("gtt"),
		table: file("gpu_metrics"), replays: file("pcie_replay_count"),
		linkSpeed: set.File(path.Join(slot, "current_link_speed")),
		linkWidth: set.File(path.Join(slot, "current_link_width")),
	}
	if d.Own != "" {
		a.partition = set.File(path.Join(d.Own, "xcp/xcp_metrics"))
	}
	return a
}

// ReadPartition reads only the identity and the partition's own values. Another partition
// reports the sensors, which belong to the whole GPU.
func (r *Reader) ReadPartition() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.beginReading()
	if s.Alive = true; !s.Suspended() {
		r.readPartition()
	}
	return r.finish()
}

// Read reads the device.
func (r *Reader) Read() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.beginReading()
	if s.Alive = true; !s.Suspended() {
		r.answers.begin()
		if s.Alive = r.readLive(); s.Alive && r.slow == nil {
			r.readSlow() // the first reading needs it
		}
	}
	r.addSlow()
	r.judgeThrottle()
	if s.PCIe.Replays.Known {
		s.PCIe.ReplayRate = r.replays.update(r.now(), s.PCIe.Replays.Value)
	}
	if s.Awake() {
		s.Lost = r.answers.end(r.now(), r.division)
	}
	s.Refused, s.Fatal, s.Table.Unknown = r.isRefused(), r.fatal, r.table.unknown
	return r.finish()
}

// begin resets the state, with the capacity of the previous one.
func (r *Reader) begin() {
	r.s = State{
		Temperatures: make([]Temperature, 0, cap(r.s.Temperatures)),
		Clocks:       make([]Clock, 0, cap(r.s.Clocks)),
	}
	r.refused, r.answered = 0, false
}

// beginReading begins a state with the identity and the state of power management.
func (r *Reader) beginReading() *State {
	r.begin()
	r.refresh()
	r.s.Identity, r.s.RuntimePower = r.id, r.status()
	return &r.s
}

// finish returns the state, which is not changed from now on.
func (r *Reader) finish() State { return r.s }

// status returns the state of runtime power management. Linux 6.1 resumes a GPU to read
// nearly any other file (pm_runtime_get_sync in amdgpu_pm.c), but the core answers this
// one.
func (r *Reader) status() string {
	b, _, _ := r.bytes(r.attrs.status)
	return string(b)
}

// noActivity is an architecture without a sensor for its activity (cyan_skillfish_ppt.c).
// Patched drivers read a register that it lacks, so it seems busy for ever.
const noActivity = "gfx1013"

// readLive reads the changing values, and reports whether it found any. Each value has an
// order of sources.
func (r *Reader) readLive() bool {
	if r.sensors.dir == "" {
		r.openHwmon()
	}
	s, a := &r.s, r.attrs
	settled := r.readTemperatures()
	if r.device.GFX != noActivity && r.into(&s.Activity.Graphics, a.busy, 100, 100) {
		r.answered = true
	}
	if r.into(&s.Activity.Memory, a.memoryBusy, 100, 100) {
		r.answered = true
	}
	r.into(&s.Memory.VRAM.Used, a.vram.used, maxBytes, 1)
	if n, ok, _ := r.number(a.vram.total, 1, maxBytes); ok {
		s.Memory.VRAM.Total = Known(float64(n))
	}
	r.readPower()
	fan := r.fallBack(r.readTable(), settled)
	r.readPartition()
	r.into(&s.Activity.Video, a.videoBusy, 100, 100)
	for _, pool := range []struct {
		files poolFiles
		to    *Pool
	}{{a.visible, &s.Memory.Visible}, {a.gtt, &s.Memory.GTT}} {
		r.into(&pool.to.Used, pool.files.used, maxBytes, 1)
		r.into(&pool.to.Total, pool.files.total, maxBytes, 1)
	}
	r.readRest()
	if fan > 0 {
		s.Fan.RPM.setDefault(fan)
	}
	r.readLink()
	return r.hasValues()
}

// hasValues reports whether the reading found any value.
func (r *Reader) hasValues() bool {
	s := &r.s
	for _, n := range []Number{s.Activity.Graphics, s.Activity.Memory, s.Activity.Video, s.Memory.VRAM.Used,
		s.Memory.VRAM.Total,
		s.Memory.Visible.Used, s.Memory.Visible.Total, s.Memory.GTT.Used, s.Memory.GTT.Total, s.Power.Now,
		s.Power.Average,
		s.Fan.RPM, s.Fan.Drive, s.PCIe.Speed, s.PCIe.Lanes, s.PCIe.Replays} {
		if n.Known {
			return true
		}
	}
	return len(s.Temperatures)+len(s.Clocks)+len(s.Rails) > 0 || s.Table.Revision != nil
}

// readLink reads the link from the PCI core if the driver's table lacks it.
func (r *Reader) readLink() {
	p := &r.s.PCIe
	if !p.Speed.Known {
		if b, ok, _ := r.bytes(r.attrs.linkSpeed); ok {
			if gt, ok := sysfile.Leading(b); ok && gt > 0 {
				p.Speed = Known(gt * 1e9)
			}
		}
	}
	if !p.Lanes.Known {
		if b, ok, _ := r.bytes(r.attrs.linkWidth); ok {
			if n, err := sysfile.Number(b); err == nil && n > 0 && n <= 64 {
				p.Lanes = Known(float64(n))
			}
		}
	}
	if !p.Replays.Known {
		r.into(&p.Replays, r.attrs.replays, 1<<40, 1)
	}
}

// fallBack sets values from the driver's table if their own files gave none. It returns the
// fan's speed, which has a sensor that is read later. settled means that the temperature
// must not be replaced.
func (r *Reader) fallBack(t tableValues, settled bool) (fan float64) {
	s := &r.s
	if !settled {
		for _, sensor := range []struct {
			name  string
			value Number
		}{{"edge", t.edge}, {"junction", t.hotspot}, {"gfx", t.gfx}} {
			if sensor.value.Known {
				s.Temperature = Temperature{Sensor: sensor.name, Now: sensor.value}
				break
			}
		}
	}
	for _, n := range []struct {
		to   *Number
		from Number
	}{{&s.Activity.Graphics, t.graphics}, {&s.Activity.Memory, t.memory}, {&s.Power.Now, t.power},
		{&s.Power.Now, t.averagePower}} {
		if n.from.Known {
			n.to.setDefault(n.from.Value)
		}
	}
	return t.fan.Value
}
