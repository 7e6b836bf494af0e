package gpumetrics

// partition1_0 is struct amdgpu_partition_metrics_v1_0. Its header has the same
// revision as gpu_metrics v1_0: only the file tells them apart.
var partition1_0 = layout{size: 488, rows: []row{
	{CurrentGfxclk, 4, u16, 8, megahertz},
	{CurrentSocclk, 20, u16, 4, megahertz},
	{CurrentVclk0, 28, u16, 4, megahertz},
	{CurrentDclk0, 36, u16, 4, megahertz},
	{CurrentUclk, 44, u16, 1, megahertz},
	{GFXBusyInst, 48, u32, 8, percent},
	{JPEGBusy, 80, u16, 40, percent},
	{VCNBusy, 160, u16, 4, percent},
	{GFXBusyAcc, 168, u64, 8, count},
	{GFXBelowHostLimitPPTAcc, 232, u64, 8, count},
	{GFXBelowHostLimitThermalAcc, 296, u64, 8, count},
	{GFXLowUtilizationAcc, 360, u64, 8, count},
	{GFXBelowHostLimitTotalAcc, 424, u64, 8, count},
}}
