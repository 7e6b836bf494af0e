package amdgpu

import (
	"strconv"

	gm "github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
)

// target describes the destination of a field of a table.
type target struct {
	kind    kind
	number  func(*State) *Number // for a field with a single number
	link    func(*Link) *Number  // for a field of each XGMI link
	name    string               // of a sensor, domain, rail, engine or reason
	array   bool                 // the array index is part of the name: hbm0
	from    int                  // number of the array's first element; for traffic 1 means written
	average bool                 // an average: used only without a current value
}

// kind selects the list of a field.
type kind uint8

const (
	single kind = iota
	sensor
	clock
	rail
	engine
	residency
	limited
	traffic
)

// fields maps the fields to their destinations. Temperatures of the die and power are
// missing, because sensors in hwmon have precedence; see fallBack.
var fields = [gm.NumFields]target{
	gm.TemperatureEdge:    {kind: sensor, name: "edge"},
	gm.TemperatureHotspot: {kind: sensor, name: "junction"},
	gm.TemperatureMem:     {kind: sensor, name: "mem"},
	gm.TemperatureVRGFX:   {kind: sensor, name: "vrgfx"},
	gm.TemperatureVRSoC:   {kind: sensor, name: "vrsoc"},
	gm.TemperatureVRMem:   {kind: sensor, name: "vrmem"},
	gm.TemperatureGFX:     {kind: sensor, name: "gfx"},
	gm.TemperatureSoC:     {kind: sensor, name: "soc"},
	gm.TemperatureSkin:    {kind: sensor, name: "skin"},
	gm.TemperatureHBM:     {kind: sensor, name: "hbm", array: true},
	gm.TemperatureMid:     {kind: sensor, name: "mid", array: true},
	gm.TemperatureAid:     {kind: sensor, name: "aid", array: true},
	gm.TemperatureXcd:     {kind: sensor, name: "xcd", array: true},

	gm.AverageGFXPower:    {number: func(s *State) *Number { return &s.Power.Graphics }},
	gm.AverageIPUPower:    {number: func(s *State) *Number { return &s.Power.NPU }},
	gm.AverageDRAMReads:   {kind: traffic, name: "package"},
	gm.AverageDRAMWrites:  {kind: traffic, name: "package", from: 1},
	gm.AverageIPUReads:    {kind: traffic, name: "npu"},
	gm.AverageIPUWrites:   {kind: traffic, name: "npu", from: 1},
	gm.EnergyAccumulator:  {number: func(s *State) *Number { return &s.Power.Energy }},
	gm.GFXActivityAcc:     {number: func(s *State) *Number { return &s.Activity.GraphicsSum }},
	gm.MemActivityAcc:     {number: func(s *State) *Number { return &s.Activity.MemorySum }},
	gm.AverageMMActivity:  {number: func(s *State) *Number { return &s.Activity.Multimedia }},
	gm.AverageVCNActivity: {number: func(s *State) *Number { return &s.Activity.Video }},
	gm.VCNActivity:        {kind: engine, name: "vcn"},
	gm.JPEGActivity:       {kind: engine, name: "jpeg"},
	gm.GFXBusyInst:        {kind: engine, name: "gfx"},
	gm.VCNBusy:            {kind: engine, name: "vcn"},
	gm.JPEGBusy:           {kind: engine, name: "jpeg"},

	gm.CurrentGfxclk:          {kind: clock, name: "gfx"},
	gm.CurrentUclk:            {kind: clock, name: "mem"},
	gm.CurrentSocclk:          {kind: clock, name: "soc"},
	gm.CurrentFclk:            {kind: clock, name: "fabric"},
	gm.CurrentVclk:            {kind: clock, name: "vclk"},
	gm.CurrentDclk:            {kind: clock, name: "dclk"},
	gm.CurrentVclk0:           {kind: clock, name: "vclk"},
	gm.CurrentDclk0:           {kind: clock, name: "dclk"},
	gm.CurrentVclk1:           {kind: clock, name: "vclk", from: 1},
	gm.CurrentDclk1:           {kind: clock, name: "dclk", from: 1},
	gm.AverageGfxclkFrequency: {kind: clock, name: "gfx", average: true},
	gm.AverageUclkFrequency:   {kind: clock, name: "mem", average: true},
	gm.AverageSocclkFrequency: {kind: clock, name: "soc", average: true},
	gm.AverageFclkFrequency:   {kind: clock, name: "fabric", average: true},
	gm.AverageVclkFrequency:   {kind: clock, name: "vclk", average: true},
	gm.AverageDclkFrequency:   {kind: clock, name: "dclk", average: true},
	gm.AverageIpuclkFrequency: {kind: clock, name: "npu", average: true},
	gm.AverageVclk0Frequency:  {kind: clock, name: "vclk", average: true},
	gm.AverageDclk0Frequency:  {kind: clock, name: "dclk", average: true},
	gm.AverageVclk1Frequency:  {kind: clock, name: "vclk", from: 1, average: true},
	gm.AverageDclk1Frequency:  {kind: clock, name: "dclk", from: 1, average: true},

	gm.VoltageGFX:        {kind: rail, name: "vddgfx"}, // as in hwmon
	gm.VoltageSoC:        {kind: rail, name: "vddsoc"},
	gm.VoltageMem:        {kind: rail, name: "vddmem"},
	gm.AverageGFXVoltage: {kind: rail, name: "vddgfx", average: true},
	gm.AverageSoCVoltage: {kind: rail, name: "vddsoc", average: true},

	gm.PCIeLinkWidth:              {number: func(s *State) *Number { return &s.PCIe.Lanes }},
	gm.PCIeLinkSpeed:              {number: func(s *State) *Number { return &s.PCIe.Speed }},
	gm.PCIeReplayCountAcc:         {number: func(s *State) *Number { return &s.PCIe.Replays }},
	gm.PCIeReplayRoverCountAcc:    {number: func(s *State) *Number { return &s.PCIe.Rollovers }},
	gm.PCIeL0ToRecovCountAcc:      {number: func(s *State) *Number { return &s.PCIe.Recoveries }},
	gm.PCIeLCPerfOtherEndRecovery: {number: func(s *State) *Number { return &s.PCIe.OtherEnd }},
	gm.PCIeNAKSentCountAcc:        {number: func(s *State) *Number { return &s.PCIe.NAKsSent }},
	gm.PCIeNAKRcvdCountAcc:        {number: func(s *State) *Number { return &s.PCIe.NAKsReceived }},
	gm.XGMIReadDataAcc:            {link: func(l *Link) *Number { return &l.Read }},
	gm.XGMIWriteDataAcc:           {link: func(l *Link) *Number { return &l.Written }},
	gm.XGMILinkStatus:             {link: func(l *Link) *Number { return &l.Up }},
	gm.XGMILinkWidth:              {number: func(s *State) *Number { return &s.XGMI.Lanes }},
	gm.XGMILinkSpeed:              {number: func(s *State) *Number { return &s.XGMI.Speed }},
	gm.MemMaxBandwidth:            {number: func(s *State) *Number { return &s.Memory.BandwidthMax }},
	gm.NumPartition:               {number: func(s *State) *Number { return &s.Division.Partitions }},

	gm.AccumulationCounter:          {number: func(s *State) *Number { return &s.Throttling.Ticks }},
	gm.ProchotResidencyAcc:          {kind: residency, name: "prochot"},
	gm.PPTResidencyAcc:              {kind: residency, name: "ppt"},
	gm.SocketThermalResidencyAcc:    {kind: residency, name: "socket_thermal"},
	gm.VRThermalResidencyAcc:        {kind: residency, name: "vr_thermal"},
	gm.HBMThermalResidencyAcc:       {kind: residency, name: "hbm_thermal"},
	gm.ThrottleResidencyProchot:     {kind: residency, name: "prochot"},
	gm.ThrottleResidencySPL:         {kind: residency, name: "spl"},
	gm.ThrottleResidencyFPPT:        {kind: residency, name: "fppt"},
	gm.ThrottleResidencySPPT:        {kind: residency, name: "sppt"},
	gm.ThrottleResidencyThermalCore: {kind: residency, name: "core_thermal"},
	gm.ThrottleResidencyThermalGFX:  {kind: residency, name: "gfx_thermal"},
	gm.ThrottleResidencyThermalSoC:  {kind: residency, name: "soc_thermal"},

	gm.GFXBelowHostLimitAcc:        {kind: limited, name: "any"},
	gm.GFXBelowHostLimitPPTAcc:     {kind: limited, name: "ppt"},
	gm.GFXBelowHostLimitThermalAcc: {kind: limited, name: "thermal"},
	gm.GFXBelowHostLimitTotalAcc:   {kind: limited, name: "total"},
	gm.GFXLowUtilizationAcc:        {kind: limited, name: "low_utilization"},
}

// set stores a value of a table, unless a previous source had a value.
func (t *target) set(s *State, v gm.Value) {
	n := int(v.Index) + t.from
	switch {
	case t.number != nil:
		t.number(s).setDefault(v.Value)
	case t.link != nil:
		for len(s.XGMI.Links) <= n {
			s.XGMI.Links = append(s.XGMI.Links, Link{})
		}
		t.link(&s.XGMI.Links[n]).setDefault(v.Value)
	case t.kind == sensor && t.array:
		s.sensor(t.name + strconv.Itoa(n)).Now.setDefault(v.Value)
	case t.kind == sensor:
		s.sensor(t.name).Now.setDefault(v.Value)
	case t.kind == clock:
		s.addClock(t.name, n, v.Value)
	case t.kind == rail:
		s.addRail(t.name, v.Value)
	case t.kind == engine:
		s.Activity.Engines = append(s.Activity.Engines,
			Engine{Kind: t.name, Instance: n, Partition: int(v.Partition), Busy: v.Value})
	case t.kind == residency:
		s.Throttling.Residency = append(s.Throttling.Residency, Residency{Reason: t.name, Ticks: v.Value})
	case t.kind == traffic:
		s.Memory.Traffic = append(s.Memory.Traffic,
			Traffic{Scope: t.name, Direction: [...]string{"read", "write"}[n], Bytes: v.Value})
	case t.kind == limited:
		s.Throttling.Limited = append(s.Throttling.Limited,
			Limited{Reason: t.name, Instance: n, Partition: int(v.Partition), Sum: v.Value})
	}
}
