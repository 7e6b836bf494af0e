package exporter

import "concourse-ci-machine/internal/exporter/expo"

// metric is a family of series.
type metric = expo.ID

// The families. Those without a unit in their names are named against
// Prometheus' own rules: dashboards and alerts for AMD GPUs know them so.
const (
	temperature metric = iota
	utilization
	memoryUtilization
	memoryUsed
	memoryTotal
	power
	pcieTx
	pcieRx
	eccUncorrectable
	hang
	throttleStatus

	gpuInfo
	temperatureCelsius
	temperatureCrit
	temperatureEmergency
	powerWatts
	powerCap
	powerCapMax
	energyJoules
	clockHertz
	clockMin
	clockMax
	voltage
	fanRPM
	fanMax
	fanRatio
	activity
	engineBusy
	vramBytes
	memoryBandwidthMax
	pcieSpeed
	pcieSpeedMax
	pcieLanes
	pcieLanesMax
	pcieReplays
	pcieRollovers
	pcieRecoveries
	pcieOtherEnd
	pcieNAKs
	xgmiBytes
	xgmiUp
	xgmiLanes
	xgmiSpeed
	rasErrors
	badPages
	throttleActive
	throttleResidency
	throttleTicks
	gfxLimited
	partitions
	partitionInfo
	firmwareInfo
	memoryInfo
	performanceLevel
	aerErrors
	suspended
	tableInfo
	hangInfo
	hangEvents
	healthScore
	healthy
	healthInfo
	containerProcesses
	containerMemory
	containerEngine
	containerUnits
	driverMatch

	leaseHeld
	leaseAge
	leaseDoubtful
	leaseGranted
	leaseRefused
	leaseHeldSeconds

	deviceUp
	gpus
	buildInfo
	readErrors
	unknownTables
	usageLeftOut
	usageSeconds
	leaseReportAge

	dcgmTemp
	dcgmUtil
	dcgmMemCopy
	dcgmUsed
	dcgmFree
	dcgmTotal
	dcgmPower
	dcgmTx
	dcgmRx
	dcgmDBE

	numMetrics
)

// families has the names and help texts, in the order of the constants.
func families() []expo.Family {
	g := func(name, help string) expo.Family { return expo.Family{Name: name, Help: help} }
	c := func(name, help string) expo.Family { return expo.Family{Name: name, Help: help, Kind: expo.Counter} }
	f := make([]expo.Family, numMetrics)
	for id, family := range map[metric]expo.Family{
		temperature:       g("rocm_gpu_temperature", "Temperature in degrees Celsius: at the die's edge, or its junction where there is no edge sensor."),
		utilization:       g("rocm_gpu_utilization", "Busy time of the graphics and compute engine in percent."),
		memoryUtilization: g("rocm_memory_utilization", "Busy time of the memory controller in percent."),
		memoryUsed:        g("rocm_memory_used", "Video memory in use in bytes."),
		memoryTotal:       g("rocm_memory_total", "Video memory in bytes; on an APU the carve-out."),
		power:             g("rocm_power_usage", "Power draw in watts, averaged where the GPU does so; on an APU with the processor's share."),
		pcieTx:            g("rocm_pcie_tx", "Bytes per second that the GPU sends over PCIe, where it counts that (MI100, MI200, Vega): an upper estimate from message counts."),
		pcieRx:            g("rocm_pcie_rx", "Bytes per second that the GPU receives over PCIe, where it counts that (MI100, MI200, Vega): an upper estimate from message counts."),
		eccUncorrectable:  g("rocm_gpu_ecc_errors_uncorrectable", "Uncorrectable errors of all blocks since the driver was loaded."),
		hang:              g("rocm_gpu_hang", "1 while any signal says that the GPU hangs or is being reset; rocm_gpu_hang_info has the signal."),
		throttleStatus:    g("rocm_gpu_throttle_status", "How many thermal limits slow the GPU down; power limits do not count."),

		gpuInfo:              g("rocm_gpu_info", "Always 1; the labels tell what the GPU is. An empty one is not known."),
		temperatureCelsius:   g("rocm_gpu_temperature_celsius", "Temperature by sensor."),
		temperatureCrit:      g("rocm_gpu_temperature_crit_celsius", "Temperature at which the GPU protects itself, by sensor."),
		temperatureEmergency: g("rocm_gpu_temperature_emergency_celsius", "Temperature at which the GPU shuts down, by sensor."),
		powerWatts:           g("rocm_gpu_power_watts", "Power draw: averaged by the firmware, or of the moment."),
		powerCap:             g("rocm_gpu_power_cap_watts", "Power limit that is set."),
		powerCapMax:          g("rocm_gpu_power_cap_max_watts", "Power limit that can be set at most."),
		energyJoules:         c("rocm_gpu_energy_joules_total", "Energy used since the driver was loaded, where the unit of the counter is known."),
		clockHertz:           g("rocm_gpu_clock_hertz", "Clock by domain, and by instance where there are several."),
		clockMin:             g("rocm_gpu_clock_min_hertz", "Lowest clock that the domain can be set to."),
		clockMax:             g("rocm_gpu_clock_max_hertz", "Highest clock that the domain can be set to."),
		voltage:              g("rocm_gpu_voltage_volts", "Voltage by rail."),
		fanRPM:               g("rocm_gpu_fan_rpm", "Fan speed in turns per minute."),
		fanMax:               g("rocm_gpu_fan_max_rpm", "Highest fan speed in turns per minute."),
		fanRatio:             g("rocm_gpu_fan_pwm_ratio", "Fan drive, 0 to 1."),
		activity:             g("rocm_gpu_activity_ratio", "Busy time by kind of engine, 0 to 1."),
		engineBusy:           g("rocm_gpu_engine_busy_ratio", "Busy time of each engine, 0 to 1."),
		vramBytes:            g("rocm_gpu_vram_bytes", "Memory by kind: video memory, the part of it that the processor can see, and system memory the GPU may use (gtt)."),
		memoryBandwidthMax:   g("rocm_gpu_memory_bandwidth_max_bytes_per_second", "Highest bandwidth of the video memory."),
		pcieSpeed:            g("rocm_pcie_link_speed_transfers_per_second", "PCIe speed of a lane now."),
		pcieSpeedMax:         g("rocm_pcie_link_max_speed_transfers_per_second", "PCIe speed of a lane at most."),
		pcieLanes:            g("rocm_pcie_link_lanes", "PCIe lanes in use."),
		pcieLanesMax:         g("rocm_pcie_link_max_lanes", "PCIe lanes at most."),
		pcieReplays:          c("rocm_pcie_replays_total", "PCIe packets sent again."),
		pcieRollovers:        c("rocm_pcie_replay_rollovers_total", "PCIe replays that had to retrain the link."),
		pcieRecoveries:       c("rocm_pcie_recoveries_total", "Times the PCIe link went from working to recovery."),
		pcieOtherEnd:         c("rocm_pcie_other_end_recoveries_total", "PCIe recoveries that the other end began."),
		pcieNAKs:             c("rocm_pcie_naks_total", "PCIe packets refused, by direction of the refusal."),
		xgmiBytes:            c("rocm_xgmi_bytes_total", "Bytes over each XGMI link."),
		xgmiUp:               g("rocm_xgmi_link_up", "1 when the XGMI link is up."),
		xgmiLanes:            g("rocm_xgmi_link_lanes", "Lanes of an XGMI link."),
		xgmiSpeed:            g("rocm_xgmi_link_speed_transfers_per_second", "XGMI speed of a lane."),
		rasErrors:            c("rocm_gpu_ras_errors_total", "Errors since the driver was loaded, by block and severity: ce corrected, de deferred, ue uncorrectable."),
		badPages:             g("rocm_gpu_bad_pages", "Bad pages of video memory: retired, pending until a reboot, or unreservable."),
		throttleActive:       g("rocm_gpu_throttle_active", "1 while the limit slows the GPU down; of heat where the sensor is near its limit. Reason unspecified where the GPU has its own codes, or no sensor for what the firmware says."),
		throttleResidency:    c("rocm_gpu_throttle_residency_total", "Firmware ticks spent under a limit; rocm_gpu_throttle_ticks_total counts all."),
		throttleTicks:        c("rocm_gpu_throttle_ticks_total", "Firmware ticks, whatever the limits."),
		gfxLimited:           c("rocm_gpu_gfx_limited_total", "Sums of the time that a compute die ran below the clock the host asked for."),
		partitions:           g("rocm_gpu_partitions", "Partitions that the GPU is divided into."),
		partitionInfo:        g("rocm_gpu_partition_info", "Always 1; the labels tell how compute and memory are divided."),
		firmwareInfo:         g("rocm_gpu_firmware_info", "Always 1; the version of each firmware component, as the driver writes it."),
		memoryInfo:           g("rocm_gpu_memory_info", "Always 1; who made the video memory."),
		performanceLevel:     g("rocm_gpu_performance_level_info", "Always 1; how clocks are chosen: auto is the driver's own way, manual, low and others were set by somebody."),
		aerErrors:            c("rocm_pcie_aer_errors_total", "Errors that PCIe reported for the GPU since it was found, by severity: correctable, nonfatal, fatal."),
		suspended:            g("rocm_gpu_suspended", "1 while the GPU is asleep to save power; it is not woken for its values."),
		tableInfo:            g("rocm_gpu_metrics_info", "Always 1; the revision of the driver's gpu_metrics table."),
		hangInfo:             g("rocm_gpu_hang_info", "1 for each signal that says now that the GPU hangs or is being reset."),
		hangEvents:           c("rocm_gpu_hang_events_total", "Hangs and resets seen since the exporter was started."),
		healthScore:          g("rocm_gpu_health_score", "0 to 100: package health of the exporter has the formula. Absent where too little is known."),
		healthy:              g("rocm_gpu_healthy", "0 when the GPU is in a critical state, 1 when it is healthy or has a warning. Absent where too little is known."),
		healthInfo:           g("rocm_gpu_health_info", "Always 1; the state is healthy, warning, critical or unknown."),
		containerProcesses:   g("rocm_gpu_container_processes", "Processes of a container that hold the GPU open; container is empty for those in none."),
		containerMemory:      g("rocm_gpu_container_memory_bytes", "Memory that a container's processes hold, by kind; kfd is what KFD counts for itself, mostly a part of vram."),
		containerEngine:      c("rocm_gpu_container_engine_seconds_total", "Busy time of each engine for a container's processes. Work that ROCm hands to the GPU by itself is not counted by the kernel."),
		containerUnits:       g("rocm_gpu_container_compute_units", "Compute units with ROCm work of a container in them, where the GPU tells."),
		driverMatch:          g("concourse_gpu_driver_match", "1 when the amdgpu module in use is the one that would be loaded at the next boot. Absent where that can't be told, as in a container."),

		leaseHeld:        g("rocm_gpu_lease_held", "1 while a task has the GPU for its own, 0 while it is free, with gpu-sharing=exclusive."),
		leaseAge:         g("rocm_gpu_lease_age_seconds", "How long the container has had the GPU."),
		leaseDoubtful:    g("rocm_gpu_lease_doubtful", "1 while the GPU counts as held though it could not be seen that its task lives; the action gpu-status says why."),
		leaseGranted:     c("rocm_gpu_leases_granted_total", "Tasks that got GPUs for their own since the machine started."),
		leaseRefused:     c("rocm_gpu_leases_refused_total", "Tasks that got none: busy (too few are free), impossible (the unit has fewer)."),
		leaseHeldSeconds: c("rocm_gpu_lease_held_seconds_total", "Time that tasks had GPUs, summed over the GPUs, counted when a lease's end is seen."),

		deviceUp:      g("rocm_exporter_device_up", "1 when the GPU answered in time or was left asleep, 0 when its files fail or hang."),
		gpus:          g("rocm_exporter_gpus", "AMD GPUs that are reported on; each partition counts."),
		buildInfo:     g("rocm_exporter_build_info", "Always 1; the labels tell the exporter's version."),
		readErrors:    c("rocm_exporter_read_errors_total", "Files that had no usable value, by error: an errno, or format, range, damaged or timeout."),
		unknownTables: c("rocm_exporter_unknown_tables_total", "Binary tables of a revision that the exporter has no layout for."),

		usageLeftOut: g("rocm_exporter_usage_left_out", "What the last look at the users of the GPUs could not tell about, by reason."),
		usageSeconds: g("rocm_exporter_usage_scan_seconds", "How long the last look through the machine's processes took."),

		leaseReportAge: g("rocm_exporter_lease_report_age_seconds", "How old what is known of leases is; from 120 on, leases are not shown."),

		dcgmTemp:    g("DCGM_FI_DEV_GPU_TEMP", "rocm_gpu_temperature under the name that NVIDIA's exporter has."),
		dcgmUtil:    g("DCGM_FI_DEV_GPU_UTIL", "rocm_gpu_utilization under the name that NVIDIA's exporter has."),
		dcgmMemCopy: g("DCGM_FI_DEV_MEM_COPY_UTIL", "rocm_memory_utilization under the name that NVIDIA's exporter has."),
		dcgmUsed:    g("DCGM_FI_DEV_FB_USED", "rocm_memory_used in MiB."),
		dcgmFree:    g("DCGM_FI_DEV_FB_FREE", "rocm_memory_total less rocm_memory_used in MiB."),
		dcgmTotal:   g("DCGM_FI_DEV_FB_TOTAL", "rocm_memory_total in MiB."),
		dcgmPower:   g("DCGM_FI_DEV_POWER_USAGE", "rocm_power_usage under the name that NVIDIA's exporter has."),
		dcgmTx:      g("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "rocm_pcie_tx in kilobytes (1000) per second."),
		dcgmRx:      g("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "rocm_pcie_rx in kilobytes (1000) per second."),
		dcgmDBE:     g("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "rocm_gpu_ecc_errors_uncorrectable under the name that NVIDIA's exporter has."),
	} {
		f[id] = family
	}
	return f
}
