package exporter

import gm "concourse-ci-machine/internal/exporter/gpumetrics"

// arrayLabel says how the elements of an array are told apart.
type arrayLabel uint8

const (
	single      arrayLabel = iota
	numbered               // the number becomes part of the label's value: hbm0
	instances              // label instance
	links                  // label link
	byPartition            // labels instance and partition
)

// target is the series of a field.
type target struct {
	metric      metric
	name, value string // a label, with name ""
	array       arrayLabel
	from        uint16 // number of the first element
	late        bool   // an average: only where nothing is known of the moment
}

// shown are the fields that become series by themselves. Temperatures of the
// die and power have sensors in hwmon that go first; see fallBack.
var shown = map[gm.Field]target{
	gm.TemperatureEdge:    {metric: temperatureCelsius, name: "sensor", value: "edge"},
	gm.TemperatureHotspot: {metric: temperatureCelsius, name: "sensor", value: "junction"},
	gm.TemperatureMem:     {metric: temperatureCelsius, name: "sensor", value: "mem"},
	gm.TemperatureVRGFX:   {metric: temperatureCelsius, name: "sensor", value: "vrgfx"},
	gm.TemperatureVRSoC:   {metric: temperatureCelsius, name: "sensor", value: "vrsoc"},
	gm.TemperatureVRMem:   {metric: temperatureCelsius, name: "sensor", value: "vrmem"},
	gm.TemperatureGFX:     {metric: temperatureCelsius, name: "sensor", value: "gfx"},
	gm.TemperatureSoC:     {metric: temperatureCelsius, name: "sensor", value: "soc"},
	gm.TemperatureSkin:    {metric: temperatureCelsius, name: "sensor", value: "skin"},
	gm.TemperatureHBM:     {metric: temperatureCelsius, name: "sensor", value: "hbm", array: numbered},
	gm.TemperatureMid:     {metric: temperatureCelsius, name: "sensor", value: "mid", array: numbered},
	gm.TemperatureAid:     {metric: temperatureCelsius, name: "sensor", value: "aid", array: numbered},
	gm.TemperatureXcd:     {metric: temperatureCelsius, name: "sensor", value: "xcd", array: numbered},

	gm.EnergyAccumulator:  {metric: energyJoules},
	gm.AverageMMActivity:  {metric: activity, name: "engine", value: "multimedia"},
	gm.AverageVCNActivity: {metric: activity, name: "engine", value: "vcn"},
	gm.VCNActivity:        {metric: engineBusy, name: "engine", value: "vcn", array: byPartition},
	gm.JPEGActivity:       {metric: engineBusy, name: "engine", value: "jpeg", array: byPartition},
	gm.GFXBusyInst:        {metric: engineBusy, name: "engine", value: "gfx", array: byPartition},
	gm.VCNBusy:            {metric: engineBusy, name: "engine", value: "vcn", array: byPartition},
	gm.JPEGBusy:           {metric: engineBusy, name: "engine", value: "jpeg", array: byPartition},

	gm.CurrentGfxclk:          {metric: clockHertz, name: "clock", value: "gfx", array: instances},
	gm.CurrentUclk:            {metric: clockHertz, name: "clock", value: "mem", array: instances},
	gm.CurrentSocclk:          {metric: clockHertz, name: "clock", value: "soc", array: instances},
	gm.CurrentFclk:            {metric: clockHertz, name: "clock", value: "fabric", array: instances},
	gm.CurrentVclk:            {metric: clockHertz, name: "clock", value: "vclk", array: instances},
	gm.CurrentDclk:            {metric: clockHertz, name: "clock", value: "dclk", array: instances},
	gm.CurrentVclk0:           {metric: clockHertz, name: "clock", value: "vclk", array: instances},
	gm.CurrentDclk0:           {metric: clockHertz, name: "clock", value: "dclk", array: instances},
	gm.CurrentVclk1:           {metric: clockHertz, name: "clock", value: "vclk", array: instances, from: 1},
	gm.CurrentDclk1:           {metric: clockHertz, name: "clock", value: "dclk", array: instances, from: 1},
	gm.AverageGfxclkFrequency: {metric: clockHertz, name: "clock", value: "gfx", array: instances, late: true},
	gm.AverageUclkFrequency:   {metric: clockHertz, name: "clock", value: "mem", array: instances, late: true},
	gm.AverageSocclkFrequency: {metric: clockHertz, name: "clock", value: "soc", array: instances, late: true},
	gm.AverageFclkFrequency:   {metric: clockHertz, name: "clock", value: "fabric", array: instances, late: true},
	gm.AverageVclkFrequency:   {metric: clockHertz, name: "clock", value: "vclk", array: instances, late: true},
	gm.AverageDclkFrequency:   {metric: clockHertz, name: "clock", value: "dclk", array: instances, late: true},
	gm.AverageVclk0Frequency:  {metric: clockHertz, name: "clock", value: "vclk", array: instances, late: true},
	gm.AverageDclk0Frequency:  {metric: clockHertz, name: "clock", value: "dclk", array: instances, late: true},
	gm.AverageVclk1Frequency:  {metric: clockHertz, name: "clock", value: "vclk", array: instances, from: 1, late: true},
	gm.AverageDclk1Frequency:  {metric: clockHertz, name: "clock", value: "dclk", array: instances, from: 1, late: true},

	gm.VoltageGFX:        {metric: voltage, name: "rail", value: "vddgfx"}, // as hwmon has it
	gm.VoltageSoC:        {metric: voltage, name: "rail", value: "vddsoc"},
	gm.VoltageMem:        {metric: voltage, name: "rail", value: "vddmem"},
	gm.AverageGFXVoltage: {metric: voltage, name: "rail", value: "vddgfx", late: true},
	gm.AverageSoCVoltage: {metric: voltage, name: "rail", value: "vddsoc", late: true},

	gm.PCIeLinkWidth:              {metric: pcieLanes},
	gm.PCIeLinkSpeed:              {metric: pcieSpeed},
	gm.PCIeReplayCountAcc:         {metric: pcieReplays},
	gm.PCIeReplayRoverCountAcc:    {metric: pcieRollovers},
	gm.PCIeL0ToRecovCountAcc:      {metric: pcieRecoveries},
	gm.PCIeLCPerfOtherEndRecovery: {metric: pcieOtherEnd},
	gm.PCIeNAKSentCountAcc:        {metric: pcieNAKs, name: "direction", value: "sent"},
	gm.PCIeNAKRcvdCountAcc:        {metric: pcieNAKs, name: "direction", value: "received"},
	gm.XGMIReadDataAcc:            {metric: xgmiBytes, name: "direction", value: "read", array: links},
	gm.XGMIWriteDataAcc:           {metric: xgmiBytes, name: "direction", value: "write", array: links},
	gm.XGMILinkStatus:             {metric: xgmiUp, array: links},
	gm.XGMILinkWidth:              {metric: xgmiLanes},
	gm.XGMILinkSpeed:              {metric: xgmiSpeed},
	gm.MemMaxBandwidth:            {metric: memoryBandwidthMax},
	gm.NumPartition:               {metric: partitions},

	gm.AccumulationCounter:          {metric: throttleTicks},
	gm.ProchotResidencyAcc:          {metric: throttleResidency, name: "reason", value: "prochot"},
	gm.PPTResidencyAcc:              {metric: throttleResidency, name: "reason", value: "ppt"},
	gm.SocketThermalResidencyAcc:    {metric: throttleResidency, name: "reason", value: "socket_thermal"},
	gm.VRThermalResidencyAcc:        {metric: throttleResidency, name: "reason", value: "vr_thermal"},
	gm.HBMThermalResidencyAcc:       {metric: throttleResidency, name: "reason", value: "hbm_thermal"},
	gm.ThrottleResidencyProchot:     {metric: throttleResidency, name: "reason", value: "prochot"},
	gm.ThrottleResidencySPL:         {metric: throttleResidency, name: "reason", value: "spl"},
	gm.ThrottleResidencyFPPT:        {metric: throttleResidency, name: "reason", value: "fppt"},
	gm.ThrottleResidencySPPT:        {metric: throttleResidency, name: "reason", value: "sppt"},
	gm.ThrottleResidencyThermalCore: {metric: throttleResidency, name: "reason", value: "core_thermal"},
	gm.ThrottleResidencyThermalGFX:  {metric: throttleResidency, name: "reason", value: "gfx_thermal"},
	gm.ThrottleResidencyThermalSoC:  {metric: throttleResidency, name: "reason", value: "soc_thermal"},

	gm.GFXBelowHostLimitAcc:        {metric: gfxLimited, name: "reason", value: "any", array: byPartition},
	gm.GFXBelowHostLimitPPTAcc:     {metric: gfxLimited, name: "reason", value: "ppt", array: byPartition},
	gm.GFXBelowHostLimitThermalAcc: {metric: gfxLimited, name: "reason", value: "thermal", array: byPartition},
	gm.GFXBelowHostLimitTotalAcc:   {metric: gfxLimited, name: "reason", value: "total", array: byPartition},
	gm.GFXLowUtilizationAcc:        {metric: gfxLimited, name: "reason", value: "low_utilization", array: byPartition},
}
