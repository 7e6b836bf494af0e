package gpumetrics

import (
	"slices"
)

// Layouts of struct gpu_metrics_v1_4 and v1_5: MI300.

// v1_4 is the first layout for a GPU of several dies.
var v1_4 = layout{size: 288, rows: []row{
	{TemperatureHotspot, 4, u16, 1, celsius},
	{TemperatureMem, 6, u16, 1, celsius},
	{TemperatureVRSoC, 8, u16, 1, celsius},
	{CurrSocketPower, 10, u16, 1, watts},
	{AverageGFXActivity, 12, u16, 1, percent},
	{AverageUMCActivity, 14, u16, 1, percent},
	{VCNActivity, 16, u16, 4, percent},
	{EnergyAccumulator, 24, u64, 1, energy},
	{SystemClockCounter, 32, u64, 1, nanoseconds},
	{ThrottleStatus, 40, u32, 1, bitmask},
	{GfxclkLockStatus, 44, u32, 1, count},
	{PCIeLinkWidth, 48, u16, 1, lanes},
	{PCIeLinkSpeed, 50, u16, 1, tenthGT},
	{XGMILinkWidth, 52, u16, 1, lanes},
	{XGMILinkSpeed, 54, u16, 1, gigabits},
	{GFXActivityAcc, 56, u32, 1, count},
	{MemActivityAcc, 60, u32, 1, count},
	{PCIeBandwidthAcc, 64, u64, 1, count},
	{PCIeBandwidthInst, 72, u64, 1, unclear},
	{PCIeL0ToRecovCountAcc, 80, u64, 1, count},
	{PCIeReplayCountAcc, 88, u64, 1, count},
	{PCIeReplayRoverCountAcc, 96, u64, 1, count},
	{XGMIReadDataAcc, 104, u64, 8, kibibytes},
	{XGMIWriteDataAcc, 168, u64, 8, kibibytes},
	{FirmwareTimestamp, 232, u64, 1, tenNanoseconds},
	{CurrentGfxclk, 240, u16, 8, megahertz},
	{CurrentSocclk, 256, u16, 4, megahertz},
	{CurrentVclk0, 264, u16, 4, megahertz},
	{CurrentDclk0, 272, u16, 4, megahertz},
	{CurrentUclk, 280, u16, 1, megahertz},
}}

// v1_5 has a throttle_status, at 104, which is left out because the driver always sets it
// to 0 (smu_v13_0_6_get_gpu_metrics, Linux 6.12).
var v1_5 = layout{size: 360, rows: []row{
	{TemperatureHotspot, 4, u16, 1, celsius},
	{TemperatureMem, 6, u16, 1, celsius},
	{TemperatureVRSoC, 8, u16, 1, celsius},
	{CurrSocketPower, 10, u16, 1, watts},
	{AverageGFXActivity, 12, u16, 1, percent},
	{AverageUMCActivity, 14, u16, 1, percent},
	{VCNActivity, 16, u16, 4, percent},
	{JPEGActivity, 24, u16, 32, percent},
	{EnergyAccumulator, 88, u64, 1, energy},
	{SystemClockCounter, 96, u64, 1, nanoseconds},
	{GfxclkLockStatus, 108, u32, 1, count},
	{PCIeLinkWidth, 112, u16, 1, lanes},
	{PCIeLinkSpeed, 114, u16, 1, tenthGT},
	{XGMILinkWidth, 116, u16, 1, lanes},
	{XGMILinkSpeed, 118, u16, 1, gigabits},
	{GFXActivityAcc, 120, u32, 1, count},
	{MemActivityAcc, 124, u32, 1, count},
	{PCIeBandwidthAcc, 128, u64, 1, count},
	{PCIeBandwidthInst, 136, u64, 1, unclear},
	{PCIeL0ToRecovCountAcc, 144, u64, 1, count},
	{PCIeReplayCountAcc, 152, u64, 1, count},
	{PCIeReplayRoverCountAcc, 160, u64, 1, count},
	{PCIeNAKSentCountAcc, 168, u32, 1, count},
	{PCIeNAKRcvdCountAcc, 172, u32, 1, count},
	{XGMIReadDataAcc, 176, u64, 8, kibibytes},
	{XGMIWriteDataAcc, 240, u64, 8, kibibytes},
	{FirmwareTimestamp, 304, u64, 1, tenNanoseconds},
	{CurrentGfxclk, 312, u16, 8, megahertz},
	{CurrentSocclk, 328, u16, 4, megahertz},
	{CurrentVclk0, 336, u16, 4, megahertz},
	{CurrentDclk0, 344, u16, 4, megahertz},
	{CurrentUclk, 352, u16, 1, megahertz},
}}

// Layouts of struct gpu_metrics_v1_6 to v1_8: MI300 with statistics per
// partition, in struct amdgpu_xcp_metrics and its successors.

// v1_6 counts the time under each limit.
var v1_6 = layout{size: 1664, rows: []row{
	{TemperatureHotspot, 4, u16, 1, celsius},
	{TemperatureMem, 6, u16, 1, celsius},
	{TemperatureVRSoC, 8, u16, 1, celsius},
	{CurrSocketPower, 10, u16, 1, watts},
	{AverageGFXActivity, 12, u16, 1, percent},
	{AverageUMCActivity, 14, u16, 1, percent},
	{EnergyAccumulator, 16, u64, 1, energy},
	{SystemClockCounter, 24, u64, 1, nanoseconds},
	{AccumulationCounter, 32, u32, 1, count},
	{ProchotResidencyAcc, 36, u32, 1, count},
	{PPTResidencyAcc, 40, u32, 1, count},
	{SocketThermalResidencyAcc, 44, u32, 1, count},
	{VRThermalResidencyAcc, 48, u32, 1, count},
	{HBMThermalResidencyAcc, 52, u32, 1, count},
	{GfxclkLockStatus, 56, u32, 1, count},
	{PCIeLinkWidth, 60, u16, 1, lanes},
	{PCIeLinkSpeed, 62, u16, 1, tenthGT},
	{XGMILinkWidth, 64, u16, 1, lanes},
	{XGMILinkSpeed, 66, u16, 1, gigabits},
	{GFXActivityAcc, 68, u32, 1, count},
	{MemActivityAcc, 72, u32, 1, count},
	{PCIeBandwidthAcc, 80, u64, 1, count},
	{PCIeBandwidthInst, 88, u64, 1, unclear},
	{PCIeL0ToRecovCountAcc, 96, u64, 1, count},
	{PCIeReplayCountAcc, 104, u64, 1, count},
	{PCIeReplayRoverCountAcc, 112, u64, 1, count},
	{PCIeNAKSentCountAcc, 120, u32, 1, count},
	{PCIeNAKRcvdCountAcc, 124, u32, 1, count},
	{XGMIReadDataAcc, 128, u64, 8, kibibytes},
	{XGMIWriteDataAcc, 192, u64, 8, kibibytes},
	{FirmwareTimestamp, 256, u64, 1, tenNanoseconds},
	{CurrentGfxclk, 264, u16, 8, megahertz},
	{CurrentSocclk, 280, u16, 4, megahertz},
	{CurrentVclk0, 288, u16, 4, megahertz},
	{CurrentDclk0, 296, u16, 4, megahertz},
	{CurrentUclk, 304, u16, 1, megahertz},
	{NumPartition, 306, u16, 1, partitions},
	{PCIeLCPerfOtherEndRecovery, 1656, u32, 1, count},
}, xcp: &xcpLayout{offset: 312, stride: 168, rows: xcpRows}}

// v1_7 adds the state of the XGMI links.
var v1_7 = layout{size: 2208, rows: []row{
	{TemperatureHotspot, 4, u16, 1, celsius},
	{TemperatureMem, 6, u16, 1, celsius},
	{TemperatureVRSoC, 8, u16, 1, celsius},
	{CurrSocketPower, 10, u16, 1, watts},
	{AverageGFXActivity, 12, u16, 1, percent},
	{AverageUMCActivity, 14, u16, 1, percent},
	{MemMaxBandwidth, 16, u64, 1, gigabytes},
	{EnergyAccumulator, 24, u64, 1, energy},
	{SystemClockCounter, 32, u64, 1, nanoseconds},
	{AccumulationCounter, 40, u32, 1, count},
	{ProchotResidencyAcc, 44, u32, 1, count},
	{PPTResidencyAcc, 48, u32, 1, count},
	{SocketThermalResidencyAcc, 52, u32, 1, count},
	{VRThermalResidencyAcc, 56, u32, 1, count},
	{HBMThermalResidencyAcc, 60, u32, 1, count},
	{GfxclkLockStatus, 64, u32, 1, count},
	{PCIeLinkWidth, 68, u16, 1, lanes},
	{PCIeLinkSpeed, 70, u16, 1, tenthGT},
	{XGMILinkWidth, 72, u16, 1, lanes},
	{XGMILinkSpeed, 74, u16, 1, gigabits},
	{GFXActivityAcc, 76, u32, 1, count},
	{MemActivityAcc, 80, u32, 1, count},
	{PCIeBandwidthAcc, 88, u64, 1, count},
	{PCIeBandwidthInst, 96, u64, 1, unclear},
	{PCIeL0ToRecovCountAcc, 104, u64, 1, count},
	{PCIeReplayCountAcc, 112, u64, 1, count},
	{PCIeReplayRoverCountAcc, 120, u64, 1, count},
	{PCIeNAKSentCountAcc, 128, u32, 1, count},
	{PCIeNAKRcvdCountAcc, 132, u32, 1, count},
	{XGMIReadDataAcc, 136, u64, 8, kibibytes},
	{XGMIWriteDataAcc, 200, u64, 8, kibibytes},
	{XGMILinkStatus, 264, u16, 8, flagUnit},
	{FirmwareTimestamp, 288, u64, 1, tenNanoseconds},
	{CurrentGfxclk, 296, u16, 8, megahertz},
	{CurrentSocclk, 312, u16, 4, megahertz},
	{CurrentVclk0, 320, u16, 4, megahertz},
	{CurrentDclk0, 328, u16, 4, megahertz},
	{CurrentUclk, 336, u16, 1, megahertz},
	{NumPartition, 338, u16, 1, partitions},
	{PCIeLCPerfOtherEndRecovery, 2200, u32, 1, count},
}, xcp: &xcpLayout{offset: 344, stride: 232, rows: xcpRows1}}

// v1_8 differs from v1_7 in the partitions, and in the place of the last field.
var v1_8 = layout{size: 3872, rows: slices.Concat(v1_7.rows[:len(v1_7.rows)-1], []row{
	{PCIeLCPerfOtherEndRecovery, 3864, u32, 1, count},
}), xcp: &xcpLayout{offset: 344, stride: 440, rows: xcpRows2}}

// xcpRows describes struct amdgpu_xcp_metrics, with offsets in the element.
var xcpRows = []row{
	{GFXBusyInst, 0, u32, 8, percent},
	{JPEGBusy, 32, u16, 32, percent},
	{VCNBusy, 96, u16, 4, percent},
	{GFXBusyAcc, 104, u64, 8, count},
}

// xcpRows1 describes struct amdgpu_xcp_metrics_v1_1.
var xcpRows1 = []row{
	{GFXBusyInst, 0, u32, 8, percent},
	{JPEGBusy, 32, u16, 32, percent},
	{VCNBusy, 96, u16, 4, percent},
	{GFXBusyAcc, 104, u64, 8, count},
	{GFXBelowHostLimitAcc, 168, u64, 8, count},
}

// xcpRows2 describes struct amdgpu_xcp_metrics_v1_2.
var xcpRows2 = []row{
	{GFXBusyInst, 0, u32, 8, percent},
	{JPEGBusy, 32, u16, 40, percent},
	{VCNBusy, 112, u16, 4, percent},
	{GFXBusyAcc, 120, u64, 8, count},
	{GFXBelowHostLimitPPTAcc, 184, u64, 8, count},
	{GFXBelowHostLimitThermalAcc, 248, u64, 8, count},
	{GFXLowUtilizationAcc, 312, u64, 8, count},
	{GFXBelowHostLimitTotalAcc, 376, u64, 8, count},
}
