package gpumetrics

// Layouts of struct gpu_metrics_v1_0 to v1_3 in kgd_pp_interface.h: Vega20, Navi, MI100 and
// MI200.

// v1_0 has four bytes of padding after its header, and a link in bytes.
var v1_0 = layout{size: 80, rows: []row{
	{SystemClockCounter, 8, u64, 1, nanoseconds},
	{TemperatureEdge, 16, u16, 1, celsius},
	{TemperatureHotspot, 18, u16, 1, celsius},
	{TemperatureMem, 20, u16, 1, celsius},
	{TemperatureVRGFX, 22, u16, 1, celsius},
	{TemperatureVRSoC, 24, u16, 1, celsius},
	{TemperatureVRMem, 26, u16, 1, celsius},
	{AverageGFXActivity, 28, u16, 1, percent},
	{AverageUMCActivity, 30, u16, 1, percent},
	{AverageMMActivity, 32, u16, 1, percent},
	{AverageSocketPower, 34, u16, 1, watts},
	{EnergyAccumulator, 36, u32, 1, energy},
	{AverageGfxclkFrequency, 40, u16, 1, megahertz},
	{AverageSocclkFrequency, 42, u16, 1, megahertz},
	{AverageUclkFrequency, 44, u16, 1, megahertz},
	{AverageVclk0Frequency, 46, u16, 1, megahertz},
	{AverageDclk0Frequency, 48, u16, 1, megahertz},
	{AverageVclk1Frequency, 50, u16, 1, megahertz},
	{AverageDclk1Frequency, 52, u16, 1, megahertz},
	{CurrentGfxclk, 54, u16, 1, megahertz},
	{CurrentSocclk, 56, u16, 1, megahertz},
	{CurrentUclk, 58, u16, 1, megahertz},
	{CurrentVclk0, 60, u16, 1, megahertz},
	{CurrentDclk0, 62, u16, 1, megahertz},
	{CurrentVclk1, 64, u16, 1, megahertz},
	{CurrentDclk1, 66, u16, 1, megahertz},
	{ThrottleStatus, 68, u32, 1, bitmask},
	{CurrentFanSpeed, 72, u16, 1, rpm},
	{PCIeLinkWidth, 74, u8, 1, lanes},
	{PCIeLinkSpeed, 75, u8, 1, tenthGT},
}}

// v1_1 adds memory stacks.
var v1_1 = layout{size: 96, rows: []row{
	{TemperatureEdge, 4, u16, 1, celsius},
	{TemperatureHotspot, 6, u16, 1, celsius},
	{TemperatureMem, 8, u16, 1, celsius},
	{TemperatureVRGFX, 10, u16, 1, celsius},
	{TemperatureVRSoC, 12, u16, 1, celsius},
	{TemperatureVRMem, 14, u16, 1, celsius},
	{AverageGFXActivity, 16, u16, 1, percent},
	{AverageUMCActivity, 18, u16, 1, percent},
	{AverageMMActivity, 20, u16, 1, percent},
	{AverageSocketPower, 22, u16, 1, watts},
	{EnergyAccumulator, 24, u64, 1, energy},
	{SystemClockCounter, 32, u64, 1, nanoseconds},
	{AverageGfxclkFrequency, 40, u16, 1, megahertz},
	{AverageSocclkFrequency, 42, u16, 1, megahertz},
	{AverageUclkFrequency, 44, u16, 1, megahertz},
	{AverageVclk0Frequency, 46, u16, 1, megahertz},
	{AverageDclk0Frequency, 48, u16, 1, megahertz},
	{AverageVclk1Frequency, 50, u16, 1, megahertz},
	{AverageDclk1Frequency, 52, u16, 1, megahertz},
	{CurrentGfxclk, 54, u16, 1, megahertz},
	{CurrentSocclk, 56, u16, 1, megahertz},
	{CurrentUclk, 58, u16, 1, megahertz},
	{CurrentVclk0, 60, u16, 1, megahertz},
	{CurrentDclk0, 62, u16, 1, megahertz},
	{CurrentVclk1, 64, u16, 1, megahertz},
	{CurrentDclk1, 66, u16, 1, megahertz},
	{ThrottleStatus, 68, u32, 1, bitmask},
	{CurrentFanSpeed, 72, u16, 1, rpm},
	{PCIeLinkWidth, 74, u16, 1, lanes},
	{PCIeLinkSpeed, 76, u16, 1, tenthGT},
	{GFXActivityAcc, 80, u32, 1, count},
	{MemActivityAcc, 84, u32, 1, count},
	{TemperatureHBM, 88, u16, 4, celsius},
}}

// v1_2 adds the firmware's clock.
var v1_2 = v1_1.extend(104, row{FirmwareTimestamp, 96, u64, 1, tenNanoseconds})

// v1_3 adds voltages, and throttle bits with the same meaning for every GPU.
var v1_3 = v1_2.extend(120,
	row{VoltageSoC, 104, u16, 1, millivolts},
	row{VoltageGFX, 106, u16, 1, millivolts},
	row{VoltageMem, 108, u16, 1, millivolts},
	row{IndepThrottleStatus, 112, u64, 1, bitmask})
