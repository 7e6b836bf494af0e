package series

import (
	"cmp"
	"math"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// putGPU adds all series of one GPU. Few exist if the GPU does not answer, or for a
// partition whose sensors another partition shows.
func putGPU(r *rows, g *monitor.GPU, s *monitor.Snapshot) {
	d, id := &g.Slot, &g.State.Identity
	r.put(deviceUp, oneIf(g.Up))
	r.put(gpuInfo, 1, string(d.Vendor), d.Model, d.GFX, id.VBIOS, id.Serial, g.Driver, itoa(d.Partition),
		id.ProductNumber, id.NUMANode)
	r.putKnown(canCompute, g.State.Compute.Ready)
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
			r.put(leaseAge, max(s.At.Sub(*l.Since).Seconds(), 0), l.Container[:min(len(l.Container), 64)],
				string(cmp.Or(l.Kind, lease.Task)), l.Namespace, l.Pod, l.Title)
		}
		r.put(leaseDoubtful, oneIf(l.Doubt != ""))
	}
	if v := g.Service; v != nil {
		r.put(serviceState, 1, string(v.State))
		r.put(quarantineTimes, float64(v.Times))
		r.put(serviceSeconds, v.QuarantinedFor(s.At))
		putFaults(r, s, v.Name)
	}
}

// faultTime is the time that a fault of a container is shown.
const faultTime = 24 * time.Hour

// putFaults adds the containers that had faults on a GPU. A container has one verdict.
func putFaults(r *rows, s *monitor.Snapshot, name string) {
	if s.Service == nil {
		return
	}
	for _, m := range s.Service.FaultyRuns {
		for _, u := range m.GPUs {
			if u.Name == name && len(u.NewFaults) > 0 && s.At.Sub(m.FaultTime(u)) < faultTime {
				r.put(containerFaults, float64(len(u.NewFaults)), m.Container[:min(len(m.Container), 64)],
					string(m.Verdict))
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
	r.putKnown(temperature, s.Temperature.Now)
	for i := range s.Temperatures {
		t := &s.Temperatures[i]
		r.putKnown(temperatureCelsius, t.Now, t.Sensor)
		r.putKnown(temperatureCrit, t.Critical, t.Sensor)
		r.putKnown(temperatureEmergency, t.Emergency, t.Sensor)
	}
	r.putKnown(power, s.Power.Now)
	r.putKnown(powerWatts, s.Power.Average, "average")
	r.putKnown(powerWatts, s.Power.Input, "input")
	r.putKnown(powerWatts, s.Power.Graphics, "gfx")
	r.putKnown(powerWatts, s.Power.NPU, "npu")
	putBoard(r, &s.Board)
	r.putKnown(powerCap, s.Power.Cap)
	r.putKnown(powerCapMax, s.Power.CapMax)
	r.putKnown(energyJoules, s.Power.Energy)
	for _, c := range s.Clocks {
		r.put(clockHertz, c.Hertz, c.Domain, itoa(c.Instance))
	}
	for _, c := range s.ClockRanges {
		r.putKnown(clockMin, c.Min, c.Domain)
		r.put(clockMax, c.Max, c.Domain)
	}
	for _, rail := range s.Rails {
		r.put(voltage, rail.Volts, rail.Name)
	}
	r.putKnown(fanRPM, s.Fan.RPM)
	r.putKnown(fanMax, s.Fan.MaxRPM)
	r.putKnown(fanRatio, s.Fan.Drive)
	putActivity(r, g)
	putMemory(r, g)
	putLinks(r, g)
	putRAS(r, g)
	putThrottling(r, g)
	putInventory(r, g)
}

// percent converts a ratio exactly if the source had whole percents or hundredths.
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
	r.putKnown(activity, socket, "gfx")
	if a.Memory.Known {
		r.put(memoryUtilization, percent(a.Memory.Value))
		r.put(activity, a.Memory.Value, "memory")
	}
	r.putKnown(activity, a.Multimedia, "multimedia")
	r.putKnown(activity, a.Video, "vcn")
	r.putKnown(activitySum, a.GraphicsSum, "gfx")
	r.putKnown(activitySum, a.MemorySum, "memory")
}

func putBoard(r *rows, b *amdgpu.Board) {
	for _, t := range b.Temperatures {
		r.put(boardTemperature, t.Celsius, t.Sensor)
	}
	r.putKnown(boardPower, b.Power)
	r.putKnown(boardPowerCap, b.PowerLimit)
	r.putKnown(nodePower, b.Node)
	r.putKnown(nodePowerCap, b.NodeLimit)
	r.putKnown(nodePowerCapMax, b.NodeLimitMax)
}

func putMemory(r *rows, g *monitor.GPU) {
	m := &g.State.Memory
	r.putKnown(memoryUsed, g.State.ProgramMemory().Used)
	r.putKnown(memoryTotal, g.State.ProgramMemory().Total)
	r.putKnown(vramBytes, m.VRAM.Used, "vram", "used")
	r.putKnown(vramBytes, m.VRAM.Total, "vram", "total")
	r.putKnown(vramBytes, m.Visible.Used, "vis_vram", "used")
	r.putKnown(vramBytes, m.Visible.Total, "vis_vram", "total")
	r.putKnown(vramBytes, m.GTT.Used, "gtt", "used")
	r.putKnown(vramBytes, m.GTT.Total, "gtt", "total")
	r.putKnown(memoryBandwidthMax, m.BandwidthMax)
	for _, t := range m.Traffic {
		r.put(memoryTraffic, t.Bytes, t.Scope, t.Direction)
	}
}

func putLinks(r *rows, g *monitor.GPU) {
	p, x := &g.State.PCIe, &g.State.XGMI
	r.putKnown(pcieSpeed, p.Speed)
	r.putKnown(pcieSpeedMax, p.SpeedMax)
	r.putKnown(pcieLanes, p.Lanes)
	r.putKnown(pcieLanesMax, p.LanesMax)
	r.putKnown(pcieReplays, p.Replays)
	r.putKnown(pcieRollovers, p.Rollovers)
	r.putKnown(pcieRecoveries, p.Recoveries)
	r.putKnown(pcieOtherEnd, p.OtherEnd)
	r.putKnown(pcieNAKs, p.NAKsSent, "sent")
	r.putKnown(pcieNAKs, p.NAKsReceived, "received")
	for _, c := range p.AER {
		r.put(aerErrors, c.Errors, c.Severity)
	}
	for _, c := range p.PortAER {
		r.put(portErrors, c.Errors, c.Port, c.Severity)
	}
	for i := range x.Links {
		l := &x.Links[i]
		r.putKnown(xgmiBytes, l.Read, "read", itoa(i))
		r.putKnown(xgmiBytes, l.Written, "write", itoa(i))
		r.putKnown(xgmiUp, l.Up, itoa(i))
	}
	r.putKnown(xgmiLanes, x.Lanes)
	r.putKnown(xgmiSpeed, x.Speed)
}

func putRAS(r *rows, g *monitor.GPU) {
	ras := &g.State.RAS
	for i := range ras.Blocks {
		b := &ras.Blocks[i]
		r.putKnown(rasErrors, b.Uncorrectable, b.Block, "ue")
		r.putKnown(rasErrors, b.Correctable, b.Block, "ce")
		r.putKnown(rasErrors, b.Deferred, b.Block, "de")
	}
	if len(ras.Blocks) > 0 {
		r.put(eccUncorrectable, float64(ras.Errors.Uncorrectable))
	}
	if p := ras.BadPages; p != nil {
		r.put(badPages, float64(p.Retired), "retired")
		r.put(badPages, float64(p.Pending), "pending")
		r.put(badPages, float64(p.Unreservable), "unreservable")
		r.putKnown(badPages, p.Replaced, "replaced")
	}
}

func putThrottling(r *rows, g *monitor.GPU) {
	t := &g.State.Throttling
	r.putKnown(throttleStatus, t.Limits)
	for _, a := range t.Active {
		r.put(throttleActive, oneIf(a.Active), a.Reason)
	}
	for _, res := range t.Residency {
		r.put(throttleResidency, res.Ticks, res.Reason)
	}
	r.putKnown(throttleTicks, t.Ticks)
	for _, l := range t.Limited {
		r.put(gfxLimited, l.Sum, l.Reason, itoa(l.Instance), itoa(l.Partition))
	}
}

func putInventory(r *rows, g *monitor.GPU) {
	s := &g.State
	r.putKnown(partitions, s.Division.Partitions)
	if s.Division.Compute != "" || s.Division.Memory != "" {
		r.put(partitionInfo, 1, s.Division.Compute, s.Division.Memory)
	}
	for _, f := range s.Inventory.Firmware {
		r.put(firmwareInfo, 1, f.Component, f.Version, g.Slot.Model)
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
