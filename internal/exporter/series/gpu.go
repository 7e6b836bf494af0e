package series

import (
	"cmp"
	"math"
	"time"

	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu/amd/amdgpu"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/pool/lease"
)

// putGPU adds all that is told of one GPU. One that does not answer, or a partition
// whose sensors another shows, has little of it.
func putGPU(r *rows, g *monitor.GPU, s *monitor.Snapshot) {
	d, id := &g.Device, &g.State.Identity
	r.put(deviceUp, oneIf(g.Up))
	r.put(gpuInfo, 1, string(d.Vendor), d.Name, d.GFX, id.VBIOS, id.Serial, g.Driver, itoa(d.Partition), id.ProductNumber, id.NUMANode)
	if !g.Silent && (!g.Shared || g.Up) {
		putState(r, g)
	}
	if !g.Shared || g.Silent {
		putJudgement(r, g)
	}
	if t := g.Traffic; t != nil {
		r.put(pcieRx, t.Received)
		r.put(pcieTx, t.Sent)
	}
	for _, u := range g.Users {
		r.put(containerProcesses, float64(u.Processes), u.Container)
		r.put(containerOpen, u.Open, u.Container)
		for _, a := range u.Memory {
			r.put(containerMemory, a.Value, u.Container, a.Name)
		}
		for _, a := range u.Peak {
			r.put(containerPeak, a.Value, u.Container, a.Name)
		}
		for _, a := range u.Engines {
			r.put(containerEngine, a.Value, u.Container, a.Name)
		}
		for _, a := range u.Units {
			r.put(containerUnits, a.Value, u.Container)
		}
	}
	if l := g.Lease; l != nil {
		r.put(leaseHeld, oneIf(l.Held))
		if l.Held && l.Since != nil {
			r.put(leaseAge, max(s.At.Sub(*l.Since).Seconds(), 0), l.Container[:min(len(l.Container), 64)], string(cmp.Or(l.Kind, lease.Task)), l.Namespace, l.Pod)
		}
		r.put(leaseDoubtful, oneIf(l.Doubt != ""))
	}
	if v := g.Service; v != nil {
		r.put(serviceState, 1, string(v.State))
		r.put(withheldTimes, float64(v.Times))
		r.put(serviceSeconds, v.OutFor(s.At))
		putFaults(r, s, v.Name)
	}
}

// faultTime is how long what containers met on a GPU is told of.
const faultTime = 24 * time.Hour

// putFaults adds which containers met faults on a GPU. A container is judged once.
func putFaults(r *rows, s *monitor.Snapshot, name string) {
	if s.Service == nil {
		return
	}
	for _, m := range s.Service.FaultyRuns {
		for _, u := range m.GPUs {
			if u.Name == name && len(u.NewFaults) > 0 && s.At.Sub(m.Began) < faultTime {
				r.put(containerFaults, float64(len(u.NewFaults)), m.Container[:min(len(m.Container), 64)], string(m.Verdict))
			}
		}
	}
}

// putJudgement adds hangs and health.
func putJudgement(r *rows, g *monitor.GPU) {
	h := &g.State.Hangs
	r.put(hang, oneIf(len(h.Signals) > 0))
	r.put(hangEvents, h.Events)
	for _, signal := range h.Signals {
		r.put(hangInfo, 1, signal)
	}
	r.put(healthInfo, 1, string(g.Health.State))
	if !math.IsNaN(g.Health.Score) {
		r.put(healthScore, math.Round(g.Health.Score*10)/10)
		r.put(healthy, oneIf(g.Health.State != health.Critical))
	}
}

// putState adds the values of a reading.
func putState(r *rows, g *monitor.GPU) {
	s := &g.State
	if !g.Shared && s.RuntimePower != "" && s.RuntimePower != "unsupported" {
		r.put(suspended, oneIf(s.Suspended()))
	}
	r.known(temperature, s.Temperature.Now)
	for i := range s.Temperatures {
		t := &s.Temperatures[i]
		r.known(temperatureCelsius, t.Now, t.Sensor)
		r.known(temperatureCrit, t.Critical, t.Sensor)
		r.known(temperatureEmergency, t.Emergency, t.Sensor)
	}
	r.known(power, s.Power.Now)
	r.known(powerWatts, s.Power.Average, "average")
	r.known(powerWatts, s.Power.Input, "input")
	r.known(powerWatts, s.Power.Graphics, "gfx")
	r.known(powerWatts, s.Power.NPU, "npu")
	putBoard(r, &s.Board)
	r.known(powerCap, s.Power.Cap)
	r.known(powerCapMax, s.Power.CapMax)
	r.known(energyJoules, s.Power.Energy)
	for _, c := range s.Clocks {
		r.put(clockHertz, c.Hertz, c.Domain, itoa(c.Instance))
	}
	for _, c := range s.ClockRanges {
		r.known(clockMin, c.Min, c.Domain)
		r.put(clockMax, c.Max, c.Domain)
	}
	for _, rail := range s.Rails {
		r.put(voltage, rail.Volts, rail.Name)
	}
	r.known(fanRPM, s.Fan.RPM)
	r.known(fanMax, s.Fan.MaxRPM)
	r.known(fanRatio, s.Fan.Drive)
	putActivity(r, g)
	putMemory(r, g)
	putLinks(r, g)
	putRAS(r, g)
	putThrottling(r, g)
	putInventory(r, g)
}

// percent is exact where a source had whole percents or hundredths.
func percent(ratio float64) float64 { return float64(int64(ratio*10_000+.5)) / 100 }

func putActivity(r *rows, g *monitor.GPU) {
	a, socket := &g.State.Activity, g.State.Activity.Graphics
	if g.Socket.Known {
		socket = g.Socket
		r.put(socketUtilization, percent(socket.Value))
	}
	if a.Graphics.Known {
		r.put(utilization, percent(a.Graphics.Value))
	}
	for _, e := range a.Engines {
		r.put(engineBusy, e.Busy, e.Kind, itoa(e.Instance), itoa(e.Partition))
	}
	if g.Shared {
		return
	}
	r.known(activity, socket, "gfx")
	if a.Memory.Known {
		r.put(memoryUtilization, percent(a.Memory.Value))
		r.put(activity, a.Memory.Value, "memory")
	}
	r.known(activity, a.Multimedia, "multimedia")
	r.known(activity, a.Video, "vcn")
	r.known(activitySum, a.GraphicsSum, "gfx")
	r.known(activitySum, a.MemorySum, "memory")
}

func putBoard(r *rows, b *amdgpu.Board) {
	for _, t := range b.Temperatures {
		r.put(boardTemperature, t.Celsius, t.Sensor)
	}
	r.known(boardPower, b.Power)
	r.known(boardPowerCap, b.PowerLimit)
	r.known(nodePower, b.Node)
	r.known(nodePowerCap, b.NodeLimit)
	r.known(nodePowerCapMax, b.NodeLimitMax)
}

func putMemory(r *rows, g *monitor.GPU) {
	m := &g.State.Memory
	r.known(memoryUsed, m.VRAM.Used)
	r.known(memoryTotal, m.VRAM.Total)
	r.known(vramBytes, m.VRAM.Used, "vram", "used")
	r.known(vramBytes, m.VRAM.Total, "vram", "total")
	r.known(vramBytes, m.Visible.Used, "vis_vram", "used")
	r.known(vramBytes, m.Visible.Total, "vis_vram", "total")
	r.known(vramBytes, m.GTT.Used, "gtt", "used")
	r.known(vramBytes, m.GTT.Total, "gtt", "total")
	r.known(memoryBandwidthMax, m.BandwidthMax)
	for _, t := range m.Traffic {
		r.put(memoryTraffic, t.Bytes, t.Of, t.Direction)
	}
}

func putLinks(r *rows, g *monitor.GPU) {
	p, x := &g.State.PCIe, &g.State.XGMI
	r.known(pcieSpeed, p.Speed)
	r.known(pcieSpeedMax, p.SpeedMax)
	r.known(pcieLanes, p.Lanes)
	r.known(pcieLanesMax, p.LanesMax)
	r.known(pcieReplays, p.Replays)
	r.known(pcieRollovers, p.Rollovers)
	r.known(pcieRecoveries, p.Recoveries)
	r.known(pcieOtherEnd, p.OtherEnd)
	r.known(pcieNAKs, p.NAKsSent, "sent")
	r.known(pcieNAKs, p.NAKsReceived, "received")
	for _, c := range p.AER {
		r.put(aerErrors, c.Errors, c.Severity)
	}
	for i := range x.Links {
		l := &x.Links[i]
		r.known(xgmiBytes, l.Read, "read", itoa(i))
		r.known(xgmiBytes, l.Written, "write", itoa(i))
		r.known(xgmiUp, l.Up, itoa(i))
	}
	r.known(xgmiLanes, x.Lanes)
	r.known(xgmiSpeed, x.Speed)
}

func putRAS(r *rows, g *monitor.GPU) {
	ras := &g.State.RAS
	for i := range ras.Blocks {
		b := &ras.Blocks[i]
		r.known(rasErrors, b.Uncorrectable, b.Block, "ue")
		r.known(rasErrors, b.Correctable, b.Block, "ce")
		r.known(rasErrors, b.Deferred, b.Block, "de")
	}
	if len(ras.Blocks) > 0 {
		r.put(eccUncorrectable, float64(ras.Errors.Uncorrectable))
	}
	if p := ras.BadPages; p != nil {
		r.put(badPages, float64(p.Retired), "retired")
		r.put(badPages, float64(p.Pending), "pending")
		r.put(badPages, float64(p.Unreservable), "unreservable")
		r.known(badPages, p.Replaced, "replaced")
	}
}

func putThrottling(r *rows, g *monitor.GPU) {
	t := &g.State.Throttling
	r.known(throttleStatus, t.Limits)
	for _, a := range t.Active {
		r.put(throttleActive, oneIf(a.Active), a.Reason)
	}
	for _, res := range t.Residency {
		r.put(throttleResidency, res.Ticks, res.Reason)
	}
	r.known(throttleTicks, t.Ticks)
	for _, l := range t.Limited {
		r.put(gfxLimited, l.Sum, l.Reason, itoa(l.Instance), itoa(l.Partition))
	}
}

func putInventory(r *rows, g *monitor.GPU) {
	s := &g.State
	r.known(partitions, s.Division.Partitions)
	if s.Division.Compute != "" || s.Division.Memory != "" {
		r.put(partitionInfo, 1, s.Division.Compute, s.Division.Memory)
	}
	for _, f := range s.Inventory.Firmware {
		r.put(firmwareInfo, 1, f.Component, f.Version, g.Device.Name)
	}
	if v := s.Inventory.MemoryVendor; v != "" {
		r.put(memoryInfo, 1, v)
	}
	if level := s.Inventory.PerformanceLevel; level != "" {
		r.put(performanceLevel, 1, level)
	}
	if s.Table.Revision != nil {
		r.put(tableInfo, 1, s.Table.Revision.String())
	}
	for _, u := range s.Table.Unknown {
		r.put(unknownTables, u.Readings, u.File, u.Revision)
	}
}
