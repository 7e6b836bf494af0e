package exporter

import (
	"path"
	"strings"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/sysfile"
)

// attributes are the device's files that are read at every scrape.
type attributes struct {
	engines                       [3]labelledFile // busy, mem busy, vcn busy
	slots                         [2]*slot        // of used and total
	status                        *sysfile.File
	used, total                   *sysfile.File
	table, partition              *sysfile.File
	memory                        []labelledFile
	linkSpeed, linkWidth, replays *sysfile.File
}

// labelledFile is a file with the labels of its series.
type labelledFile struct {
	file  *sysfile.File
	extra []expo.Label
	slot  *slot
}

func newAttributes(set *sysfile.Set, d Device) *attributes {
	file := func(name string) *sysfile.File { return set.File(path.Join(d.Dir, name)) }
	a := &attributes{
		status: file("power/runtime_status"),
		engines: [3]labelledFile{
			{file: file("gpu_busy_percent"), extra: []expo.Label{label("engine", "gfx")}},
			{file: file("mem_busy_percent"), extra: []expo.Label{label("engine", "memory")}},
			{file: file("vcn_busy_percent"), extra: []expo.Label{label("engine", "vcn")}},
		},
		used: file("mem_info_vram_used"), total: file("mem_info_vram_total"),
		table: file("gpu_metrics"), linkSpeed: file("current_link_speed"), linkWidth: file("current_link_width"),
		replays: file("pcie_replay_count"),
	}
	if d.Own != "" {
		a.partition = set.File(path.Join(d.Own, "xcp/xcp_metrics"))
	}
	for _, kind := range []string{"vis_vram", "gtt"} {
		for _, state := range []string{"used", "total"} {
			a.memory = append(a.memory, labelledFile{file: file("mem_info_" + kind + "_" + state), extra: vramLabels(kind, state)})
		}
	}
	return a
}

func vramLabels(kind, state string) []expo.Label {
	return []expo.Label{label("kind", kind), label("state", state)}
}

// read reads one device. Where live is false only its identity and what is the
// partition's own are read: the sensors belong to the whole GPU, and another
// partition reports them.
func (c *card) read(live bool, memory *[]expo.Sample) Sample {
	c.turn++
	c.sample = &Sample{Alive: true, Values: (*memory)[:0], memory: memory}
	c.refresh()
	s := c.sample
	s.Identity, s.heads = c.id, c.heads
	c.hangs.begin()
	status := c.status()
	s.vitals.Suspended = strings.HasPrefix(status, "suspend")
	switch {
	case !live:
		if !s.vitals.Suspended {
			c.readPartition()
		}
		return c.done()
	case s.vitals.Suspended:
		c.put(suspended, 1)
	default:
		if status != "" && status != "unsupported" {
			c.put(suspended, 0)
		}
		before := len(s.Values)
		c.readLive()
		if s.Alive = len(s.Values) > before; s.Alive {
			c.readSlowOnce()
		}
		c.showBits()
	}
	c.addSlow()
	c.hangs.end(c.now(), status == "active" || status == "unsupported" || status == "")
	if c.dcgm {
		c.addDCGM()
	}
	c.judge()
	return c.done()
}

// done hands the sample over: from now on others may read it.
func (c *card) done() Sample {
	s := *c.sample
	c.sample = nil
	*s.memory = s.Values
	return s
}

// status is the state of runtime power management. Linux 6.1 resumes a GPU to
// answer nearly any other file of it (pm_runtime_get_sync in amdgpu_pm.c); this
// one is answered by the core.
func (c *card) status() string {
	b, _, _ := c.bytes(c.attrs.status)
	return string(b)
}

// readLive reads the values that change. Each has its order of sources.
func (c *card) readLive() {
	if c.sensors.dir == "" {
		c.openHwmon()
	}
	v := &c.sample.vitals
	settled := c.readTemperatures()
	a := c.attrs
	c.percent(&a.engines[0], utilization, &v.Activity)
	c.percent(&a.engines[1], memoryUtilization, &v.Memory)
	v.Used = c.integer(a.used, 0, memoryUsed, &a.slots[0], "used")
	v.Total = c.integer(a.total, 1, memoryTotal, &a.slots[1], "total")
	c.readPower()
	fan := c.fallBack(c.readTable(), settled)
	c.readPartition()
	if n, ok, _ := c.number(a.engines[2].file, 0, 100); ok {
		c.putAt(&a.engines[2].slot, activity, float64(n)/100, a.engines[2].extra)
	}
	for i := range a.memory {
		m := &a.memory[i]
		if n, ok, _ := c.number(m.file, 0, maxBytes); ok {
			c.putAt(&m.slot, vramBytes, float64(n), m.extra)
		}
	}
	c.readRest()
	if fan > 0 && !c.has(fanRPM) {
		c.put(fanRPM, fan)
	}
	c.readLink()
}

// percent reads a busy file into the percentage and the ratio.
func (c *card) percent(e *labelledFile, m metric, into *optional) {
	if n, ok, _ := c.number(e.file, 0, 100); ok {
		c.hangs.answered++
		ratio := float64(n) / 100
		*into = known(ratio)
		c.put(m, float64(n))
		c.putAt(&e.slot, activity, ratio, e.extra)
	}
}

func (c *card) integer(f *sysfile.File, min int64, m metric, at **slot, state string) optional {
	n, ok, _ := c.number(f, min, maxBytes)
	if !ok {
		return optional{}
	}
	v := float64(n)
	c.put(m, v)
	if *at == nil {
		extra := vramLabels("vram", state)
		*at = c.slot(keyOf(vramBytes, extra), extra)
	}
	c.set(*at, v)
	return known(v)
}

// readLink reads the link from the PCI core where the driver's table does not
// have it: behind a switch on the board, the core's is the link to the switch.
func (c *card) readLink() {
	if !c.has(pcieSpeed) {
		if b, ok, _ := c.bytes(c.attrs.linkSpeed); ok {
			if gt, ok := sysfile.Leading(b); ok && gt > 0 {
				c.put(pcieSpeed, gt*1e9)
			}
		}
	}
	if !c.has(pcieLanes) {
		if b, ok, _ := c.bytes(c.attrs.linkWidth); ok {
			if n, err := sysfile.Number(b); err == nil && n > 0 && n <= 64 {
				c.put(pcieLanes, float64(n))
			}
		}
	}
	if !c.has(pcieReplays) {
		if n, ok, _ := c.number(c.attrs.replays, 0, 1<<40); ok {
			c.put(pcieReplays, float64(n))
		}
	}
}
