package gpumetrics

// Field is a value of the structures, by the name it has in the kernel.
type Field uint8

// The fields of all revisions.
const (
	SystemClockCounter Field = iota
	TemperatureEdge
	TemperatureHotspot
	TemperatureMem
	TemperatureVRGFX
	TemperatureVRSoC
	TemperatureVRMem
	AverageGFXActivity
	AverageUMCActivity
	AverageMMActivity
	AverageSocketPower
	EnergyAccumulator
	AverageGfxclkFrequency
	AverageSocclkFrequency
	AverageUclkFrequency
	AverageVclk0Frequency
	AverageDclk0Frequency
	AverageVclk1Frequency
	AverageDclk1Frequency
	CurrentGfxclk
	CurrentSocclk
	CurrentUclk
	CurrentVclk0
	CurrentDclk0
	CurrentVclk1
	CurrentDclk1
	ThrottleStatus
	CurrentFanSpeed
	PCIeLinkWidth
	PCIeLinkSpeed
	GFXActivityAcc
	MemActivityAcc
	TemperatureHBM
	FirmwareTimestamp
	VoltageSoC
	VoltageGFX
	VoltageMem
	IndepThrottleStatus
	CurrSocketPower
	VCNActivity
	GfxclkLockStatus
	XGMILinkWidth
	XGMILinkSpeed
	PCIeBandwidthAcc
	PCIeBandwidthInst
	PCIeL0ToRecovCountAcc
	PCIeReplayCountAcc
	PCIeReplayRoverCountAcc
	XGMIReadDataAcc
	XGMIWriteDataAcc
	JPEGActivity
	PCIeNAKSentCountAcc
	PCIeNAKRcvdCountAcc
	AccumulationCounter
	ProchotResidencyAcc
	PPTResidencyAcc
	SocketThermalResidencyAcc
	VRThermalResidencyAcc
	HBMThermalResidencyAcc
	NumPartition
	PCIeLCPerfOtherEndRecovery
	MemMaxBandwidth
	XGMILinkStatus
	GFXBusyInst
	JPEGBusy
	VCNBusy
	GFXBusyAcc
	GFXBelowHostLimitAcc
	GFXBelowHostLimitPPTAcc
	GFXBelowHostLimitThermalAcc
	GFXLowUtilizationAcc
	GFXBelowHostLimitTotalAcc
	TemperatureGFX
	TemperatureSoC
	TemperatureCore
	TemperatureL3
	AverageCPUPower
	AverageSoCPower
	AverageGFXPower
	AverageCorePower
	AverageFclkFrequency
	AverageVclkFrequency
	AverageDclkFrequency
	CurrentFclk
	CurrentVclk
	CurrentDclk
	CurrentCoreclk
	CurrentL3clk
	FanPWM
	AverageTemperatureGFX
	AverageTemperatureSoC
	AverageTemperatureCore
	AverageTemperatureL3
	AverageCPUVoltage
	AverageSoCVoltage
	AverageGFXVoltage
	AverageCPUCurrent
	AverageSoCCurrent
	AverageGFXCurrent
	TemperatureSkin
	AverageVCNActivity
	AverageIPUActivity
	AverageCoreC0Activity
	AverageDRAMReads
	AverageDRAMWrites
	AverageIPUReads
	AverageIPUWrites
	AverageIPUPower
	AverageAPUPower
	AverageDGPUPower
	AverageAllCorePower
	AverageSysPower
	STAPMPowerLimit
	CurrentSTAPMPowerLimit
	AverageVpeclkFrequency
	AverageIpuclkFrequency
	AverageMpipuFrequency
	CurrentCoreMaxfreq
	CurrentGFXMaxfreq
	ThrottleResidencyProchot
	ThrottleResidencySPL
	ThrottleResidencyFPPT
	ThrottleResidencySPPT
	ThrottleResidencyThermalCore
	ThrottleResidencyThermalGFX
	ThrottleResidencyThermalSoC
	TemperatureMid
	TemperatureAid
	TemperatureXcd
	numFields
)

// String is the name in kgd_pp_interface.h.
func (f Field) String() string {
	if f < numFields {
		return fieldNames[f]
	}
	return "unknown"
}

var fieldNames = [numFields]string{
	SystemClockCounter:           "system_clock_counter",
	TemperatureEdge:              "temperature_edge",
	TemperatureHotspot:           "temperature_hotspot",
	TemperatureMem:               "temperature_mem",
	TemperatureVRGFX:             "temperature_vrgfx",
	TemperatureVRSoC:             "temperature_vrsoc",
	TemperatureVRMem:             "temperature_vrmem",
	AverageGFXActivity:           "average_gfx_activity",
	AverageUMCActivity:           "average_umc_activity",
	AverageMMActivity:            "average_mm_activity",
	AverageSocketPower:           "average_socket_power",
	EnergyAccumulator:            "energy_accumulator",
	AverageGfxclkFrequency:       "average_gfxclk_frequency",
	AverageSocclkFrequency:       "average_socclk_frequency",
	AverageUclkFrequency:         "average_uclk_frequency",
	AverageVclk0Frequency:        "average_vclk0_frequency",
	AverageDclk0Frequency:        "average_dclk0_frequency",
	AverageVclk1Frequency:        "average_vclk1_frequency",
	AverageDclk1Frequency:        "average_dclk1_frequency",
	CurrentGfxclk:                "current_gfxclk",
	CurrentSocclk:                "current_socclk",
	CurrentUclk:                  "current_uclk",
	CurrentVclk0:                 "current_vclk0",
	CurrentDclk0:                 "current_dclk0",
	CurrentVclk1:                 "current_vclk1",
	CurrentDclk1:                 "current_dclk1",
	ThrottleStatus:               "throttle_status",
	CurrentFanSpeed:              "current_fan_speed",
	PCIeLinkWidth:                "pcie_link_width",
	PCIeLinkSpeed:                "pcie_link_speed",
	GFXActivityAcc:               "gfx_activity_acc",
	MemActivityAcc:               "mem_activity_acc",
	TemperatureHBM:               "temperature_hbm",
	FirmwareTimestamp:            "firmware_timestamp",
	VoltageSoC:                   "voltage_soc",
	VoltageGFX:                   "voltage_gfx",
	VoltageMem:                   "voltage_mem",
	IndepThrottleStatus:          "indep_throttle_status",
	CurrSocketPower:              "curr_socket_power",
	VCNActivity:                  "vcn_activity",
	GfxclkLockStatus:             "gfxclk_lock_status",
	XGMILinkWidth:                "xgmi_link_width",
	XGMILinkSpeed:                "xgmi_link_speed",
	PCIeBandwidthAcc:             "pcie_bandwidth_acc",
	PCIeBandwidthInst:            "pcie_bandwidth_inst",
	PCIeL0ToRecovCountAcc:        "pcie_l0_to_recov_count_acc",
	PCIeReplayCountAcc:           "pcie_replay_count_acc",
	PCIeReplayRoverCountAcc:      "pcie_replay_rover_count_acc",
	XGMIReadDataAcc:              "xgmi_read_data_acc",
	XGMIWriteDataAcc:             "xgmi_write_data_acc",
	JPEGActivity:                 "jpeg_activity",
	PCIeNAKSentCountAcc:          "pcie_nak_sent_count_acc",
	PCIeNAKRcvdCountAcc:          "pcie_nak_rcvd_count_acc",
	AccumulationCounter:          "accumulation_counter",
	ProchotResidencyAcc:          "prochot_residency_acc",
	PPTResidencyAcc:              "ppt_residency_acc",
	SocketThermalResidencyAcc:    "socket_thm_residency_acc",
	VRThermalResidencyAcc:        "vr_thm_residency_acc",
	HBMThermalResidencyAcc:       "hbm_thm_residency_acc",
	NumPartition:                 "num_partition",
	PCIeLCPerfOtherEndRecovery:   "pcie_lc_perf_other_end_recovery",
	MemMaxBandwidth:              "mem_max_bandwidth",
	XGMILinkStatus:               "xgmi_link_status",
	GFXBusyInst:                  "gfx_busy_inst",
	JPEGBusy:                     "jpeg_busy",
	VCNBusy:                      "vcn_busy",
	GFXBusyAcc:                   "gfx_busy_acc",
	GFXBelowHostLimitAcc:         "gfx_below_host_limit_acc",
	GFXBelowHostLimitPPTAcc:      "gfx_below_host_limit_ppt_acc",
	GFXBelowHostLimitThermalAcc:  "gfx_below_host_limit_thm_acc",
	GFXLowUtilizationAcc:         "gfx_low_utilization_acc",
	GFXBelowHostLimitTotalAcc:    "gfx_below_host_limit_total_acc",
	TemperatureGFX:               "temperature_gfx",
	TemperatureSoC:               "temperature_soc",
	TemperatureCore:              "temperature_core",
	TemperatureL3:                "temperature_l3",
	AverageCPUPower:              "average_cpu_power",
	AverageSoCPower:              "average_soc_power",
	AverageGFXPower:              "average_gfx_power",
	AverageCorePower:             "average_core_power",
	AverageFclkFrequency:         "average_fclk_frequency",
	AverageVclkFrequency:         "average_vclk_frequency",
	AverageDclkFrequency:         "average_dclk_frequency",
	CurrentFclk:                  "current_fclk",
	CurrentVclk:                  "current_vclk",
	CurrentDclk:                  "current_dclk",
	CurrentCoreclk:               "current_coreclk",
	CurrentL3clk:                 "current_l3clk",
	FanPWM:                       "fan_pwm",
	AverageTemperatureGFX:        "average_temperature_gfx",
	AverageTemperatureSoC:        "average_temperature_soc",
	AverageTemperatureCore:       "average_temperature_core",
	AverageTemperatureL3:         "average_temperature_l3",
	AverageCPUVoltage:            "average_cpu_voltage",
	AverageSoCVoltage:            "average_soc_voltage",
	AverageGFXVoltage:            "average_gfx_voltage",
	AverageCPUCurrent:            "average_cpu_current",
	AverageSoCCurrent:            "average_soc_current",
	AverageGFXCurrent:            "average_gfx_current",
	TemperatureSkin:              "temperature_skin",
	AverageVCNActivity:           "average_vcn_activity",
	AverageIPUActivity:           "average_ipu_activity",
	AverageCoreC0Activity:        "average_core_c0_activity",
	AverageDRAMReads:             "average_dram_reads",
	AverageDRAMWrites:            "average_dram_writes",
	AverageIPUReads:              "average_ipu_reads",
	AverageIPUWrites:             "average_ipu_writes",
	AverageIPUPower:              "average_ipu_power",
	AverageAPUPower:              "average_apu_power",
	AverageDGPUPower:             "average_dgpu_power",
	AverageAllCorePower:          "average_all_core_power",
	AverageSysPower:              "average_sys_power",
	STAPMPowerLimit:              "stapm_power_limit",
	CurrentSTAPMPowerLimit:       "current_stapm_power_limit",
	AverageVpeclkFrequency:       "average_vpeclk_frequency",
	AverageIpuclkFrequency:       "average_ipuclk_frequency",
	AverageMpipuFrequency:        "average_mpipu_frequency",
	CurrentCoreMaxfreq:           "current_core_maxfreq",
	CurrentGFXMaxfreq:            "current_gfx_maxfreq",
	ThrottleResidencyProchot:     "throttle_residency_prochot",
	ThrottleResidencySPL:         "throttle_residency_spl",
	ThrottleResidencyFPPT:        "throttle_residency_fppt",
	ThrottleResidencySPPT:        "throttle_residency_sppt",
	ThrottleResidencyThermalCore: "throttle_residency_thm_core",
	ThrottleResidencyThermalGFX:  "throttle_residency_thm_gfx",
	ThrottleResidencyThermalSoC:  "throttle_residency_thm_soc",
	TemperatureMid:               "temperature_mid",
	TemperatureAid:               "temperature_aid",
	TemperatureXcd:               "temperature_xcd",
}
