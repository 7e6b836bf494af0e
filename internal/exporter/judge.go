package exporter

import (
	"math"
	"strings"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/health"
)

// verdict is what package health said.
type verdict struct {
	Score  float64 // NaN where the state is unknown
	State  health.State
	Reason string
}

// judge adds hang and health to the sample.
func (c *card) judge() {
	s, now := c.sample, c.now()
	v := &s.vitals
	v.Hang = c.hangs.now
	in := health.Inputs{Suspended: v.Suspended, Hang: strings.Join(v.Hang, ", "), ThermalShare: c.throttle.share}
	if v.Suspended {
		in.ThermalShare = nil
	}
	events := c.hangs.inDay(now)
	in.Events = &events
	if !s.Alive {
		in.Unreadable = "no file gives a value"
	}
	if c.slow != nil {
		in.Errors, in.BadPages = c.slow.errors, c.slow.bad
		v.PowerCap = c.slow.cap
	}
	if t, ok := c.nearest(); ok && !v.Suspended {
		v.Temperature = t
		in.Temperature = &health.Temperature{Sensor: t.Sensor, Value: t.Value, Critical: t.Limit}
	}
	c.judgeLinks(&in)
	v.Verdict.Score, v.Verdict.State, v.Verdict.Reason = health.Assess(in)
	v.tell(c.put, c.hangs.total)
}

// judgeLinks takes the links from the values that are already there.
func (c *card) judgeLinks(in *health.Inputs) {
	var links health.Links
	pcie := health.PCIe{}
	for _, v := range c.sample.Values {
		switch v.Series.ID {
		case xgmiUp:
			// Not every link of a board is wired, and in a guest all are told as
			// down: one counts from when it was up.
			if v.Value == 1 {
				c.linked[v.Series] = true
				links.Up++
			}
			if c.linked[v.Series] {
				links.Total++
			}
		case pcieLanes:
			pcie.Width = v.Value
		case pcieSpeed:
			pcie.Speed = v.Value
		case pcieLanesMax:
			pcie.MaxWidth = v.Value
		case pcieSpeedMax:
			pcie.MaxSpeed = v.Value
		case pcieReplays:
			pcie.Replays = c.replays.next(c.now(), v.Value)
		}
	}
	if links.Total > 0 {
		in.Links = &links
	}
	if pcie.Width > 0 && pcie.MaxWidth > 0 {
		pcie.Busy = c.sample.vitals.Activity.Value >= .5
		in.PCIe = &pcie
	}
}

// tell gives what is told of every GPU, whether it answers or not.
func (v *vitals) tell(put func(metric, float64, ...expo.Label), events float64) {
	put(hang, oneIf(len(v.Hang) > 0))
	put(hangEvents, events)
	for _, signal := range v.Hang {
		put(hangInfo, 1, label("signal", signal))
	}
	put(healthInfo, 1, label("state", string(v.Verdict.State)))
	if !math.IsNaN(v.Verdict.Score) {
		put(healthScore, math.Round(v.Verdict.Score*10)/10)
		put(healthy, oneIf(v.Verdict.State != health.Critical))
	}
}

// silent is the sample of a GPU that did not answer in time: where is the file
// that the kernel does not give back.
func silent(h *heads, id Identity, where string, events float64) Sample {
	s := Sample{Identity: id, heads: h}
	s.vitals.Hang = []string{signalTimeout}
	in := health.Inputs{Hang: signalTimeout, Unreadable: "reading " + where + " does not end"}
	s.vitals.Verdict.Score, s.vitals.Verdict.State, s.vitals.Verdict.Reason = health.Assess(in)
	s.vitals.tell(func(m metric, v float64, extra ...expo.Label) { s.add(h.labels.series(m, extra...), v) }, events)
	return s
}

// addDCGM repeats the contract's values under NVIDIA's names and units.
func (c *card) addDCGM() {
	extra := c.heads.labels.dcgm(c.device.Name)
	var used, total *float64
	for _, v := range c.sample.Values {
		for _, a := range dcgmAliases {
			if v.Series.ID == a.from {
				c.put(a.to, v.Value/a.per, extra...)
			}
		}
		switch v.Series.ID {
		case memoryUsed:
			used = &v.Value
		case memoryTotal:
			total = &v.Value
		}
	}
	if used != nil && total != nil && *used <= *total {
		c.put(dcgmFree, (*total-*used)/(1<<20), extra...)
	}
}

// dcgmAliases have the number of our units in one of theirs.
var dcgmAliases = [...]struct {
	from, to metric
	per      float64
}{
	{temperature, dcgmTemp, 1}, {utilization, dcgmUtil, 1}, {memoryUtilization, dcgmMemCopy, 1},
	{memoryUsed, dcgmUsed, 1 << 20}, {memoryTotal, dcgmTotal, 1 << 20}, {power, dcgmPower, 1},
	{eccUncorrectable, dcgmDBE, 1},
}
