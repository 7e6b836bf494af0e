package series

// Family holds all series of one name.
type Family struct {
	Name, Help string
	Counter    bool
	GPU        bool     // its series have the labels gpu, pci_bus_id and uuid
	Labels     []string // further labels

	place int // index in Families
}

// Families lists all metrics, in the order of their documentation.
var Families []*Family

func define(f Family) *Family {
	f.place = len(Families)
	Families = append(Families, &f)
	return &f
}

func gauge(name, help string, labels ...string) *Family {
	return define(Family{Name: name, Help: help, GPU: true, Labels: labels})
}

func counter(name, help string, labels ...string) *Family {
	return define(Family{Name: name, Help: help, GPU: true, Counter: true, Labels: labels})
}

// ownGauge and ownCounter define metrics of the unit, without labels of a GPU.
func ownGauge(name, help string, labels ...string) *Family {
	return define(Family{Name: name, Help: help, Labels: labels})
}

func ownCounter(name, help string, labels ...string) *Family {
	return define(Family{Name: name, Help: help, Counter: true, Labels: labels})
}

var (
	// The contract: names that dashboards and alerts use. Some lack the unit that
	// Prometheus' own rules require. All families of GPUs begin with rocm_, for every
	// vendor: they were published before the exporter read NVIDIA's GPUs, and a second
	// prefix would double each rule and panel.
	temperature       = gauge("rocm_gpu_temperature", "Temperature in Celsius, of the edge, otherwise the junction.")
	utilization       = gauge("rocm_gpu_utilization", "Busy time of the compute engine in percent.")
	socketUtilization = gauge("rocm_gpu_socket_utilization", "Busy time of a whole partitioned GPU in percent.")
	memoryUtilization = gauge("rocm_memory_utilization", "Busy time of the memory controller in percent.")
	memoryUsed        = gauge("rocm_memory_used", "Used video memory in bytes; on an APU with GTT.")
	memoryTotal       = gauge("rocm_memory_total", "Video memory in bytes; on an APU with GTT.")
	power             = gauge("rocm_power_usage",
		"Power draw in watts, averaged if possible; of an APU with the processor.")
	pcieTx = gauge("rocm_pcie_tx", "Bytes per second sent over PCIe, upper estimate (MI100, MI200, Vega).")
	pcieRx = gauge("rocm_pcie_rx",
		"Bytes per second received over PCIe, upper estimate (MI100, MI200, Vega).")
	eccUncorrectable = gauge("rocm_gpu_ecc_errors_uncorrectable",
		"Uncorrectable errors of all blocks since the driver was loaded.")
	hang           = gauge("rocm_gpu_hang", "1 while the GPU hangs or is in reset.")
	throttleStatus = gauge("rocm_gpu_throttle_status", "Active thermal limits, without power limits.")

	// Further values of a GPU. Their names begin with rocm for the GPUs of each vendor,
	// because dashboards and alerts already use them.
	gpuInfo = gauge("rocm_gpu_info",
		"Identity of the GPU; unknown labels are empty.",
		"vendor", "name", "gfx", "vbios", "serial", "driver_version", "partition", "product_number", "numa_node")
	temperatureCelsius = gauge("rocm_gpu_temperature_celsius", "Temperature by sensor.", "sensor")
	temperatureCrit    = gauge("rocm_gpu_temperature_crit_celsius",
		"Temperature of self-protection, by sensor.", "sensor")
	temperatureEmergency = gauge("rocm_gpu_temperature_emergency_celsius",
		"Temperature of shutdown, by sensor.", "sensor")
	powerWatts       = gauge("rocm_gpu_power_watts", "Power draw by kind.", "kind")
	powerCap         = gauge("rocm_gpu_power_cap_watts", "Current power limit.")
	powerCapMax      = gauge("rocm_gpu_power_cap_max_watts", "Highest possible power limit.")
	boardTemperature = gauge("rocm_gpu_board_temperature_celsius",
		"Temperature of the boards below the GPU (from MI350 on).", "sensor")
	boardPower      = gauge("rocm_gpu_board_power_watts", "Power draw of the baseboard with all its GPUs.")
	boardPowerCap   = gauge("rocm_gpu_board_power_cap_watts", "Power limit of the baseboard.")
	nodePower       = gauge("rocm_gpu_node_power_watts", "Power draw of the node with all its GPUs.")
	nodePowerCap    = gauge("rocm_gpu_node_power_cap_watts", "Current power limit of the node.")
	nodePowerCapMax = gauge("rocm_gpu_node_power_cap_max_watts", "Highest possible power limit of the node.")
	energyJoules    = counter("rocm_gpu_energy_joules_total", "Energy since the driver was loaded.")
	clockHertz      = gauge("rocm_gpu_clock_hertz", "Clock by domain and instance.", "clock", "instance")
	clockMin        = gauge("rocm_gpu_clock_min_hertz", "Lowest possible clock of the domain.", "clock")
	clockMax        = gauge("rocm_gpu_clock_max_hertz", "Highest possible clock of the domain.", "clock")
	voltage         = gauge("rocm_gpu_voltage_volts", "Voltage by rail.", "rail")
	fanRPM          = gauge("rocm_gpu_fan_rpm", "Fan speed in revolutions per minute.")
	fanMax          = gauge("rocm_gpu_fan_max_rpm", "Highest fan speed.")
	fanRatio        = gauge("rocm_gpu_fan_pwm_ratio", "Fan drive, 0 to 1.")
	activity        = gauge("rocm_gpu_activity_ratio", "Busy time by kind of engine, 0 to 1.", "engine")
	activitySum     = counter("rocm_gpu_activity_sum_total",
		"Busy time by kind of engine, in a unit of the firmware.", "engine")
	engineBusy = gauge("rocm_gpu_engine_busy_ratio", "Busy time of each engine, 0 to 1.", "engine",
		"instance", "partition")
	vramBytes = gauge("rocm_gpu_vram_bytes",
		"Memory: vram, its part visible to the processor (vis_vram), system memory (gtt).",
		"kind", "state")
	memoryBandwidthMax = gauge("rocm_gpu_memory_bandwidth_max_bytes_per_second",
		"Highest bandwidth of the video memory.")
	memoryTraffic = gauge("rocm_gpu_memory_traffic_bytes_per_second",
		"Memory traffic of an APU and its NPU.", "engine", "direction")
	pcieSpeed      = gauge("rocm_pcie_link_speed_transfers_per_second", "Current PCIe speed of a lane.")
	pcieSpeedMax   = gauge("rocm_pcie_link_max_speed_transfers_per_second", "Highest PCIe speed of a lane.")
	pcieLanes      = gauge("rocm_pcie_link_lanes", "PCIe lanes in use.")
	pcieLanesMax   = gauge("rocm_pcie_link_max_lanes", "Highest number of PCIe lanes.")
	pcieReplays    = counter("rocm_pcie_replays_total", "PCIe packets sent again.")
	pcieRollovers  = counter("rocm_pcie_replay_rollovers_total", "PCIe replays that retrained the link.")
	pcieRecoveries = counter("rocm_pcie_recoveries_total", "Recoveries of the PCIe link.")
	pcieOtherEnd   = counter("rocm_pcie_other_end_recoveries_total",
		"Recoveries of the PCIe link started by the other end.")
	pcieNAKs          = counter("rocm_pcie_naks_total", "Rejected PCIe packets by direction.", "direction")
	xgmiBytes         = counter("rocm_xgmi_bytes_total", "Bytes over each XGMI link.", "direction", "link")
	xgmiUp            = gauge("rocm_xgmi_link_up", "1 if the XGMI link is up.", "link")
	xgmiLanes         = gauge("rocm_xgmi_link_lanes", "Lanes of an XGMI link.")
	xgmiSpeed         = gauge("rocm_xgmi_link_speed_transfers_per_second", "XGMI speed of a lane.")
	rasErrors         = counter("rocm_gpu_ras_errors_total", "Errors since the driver was loaded.", "block", "severity")
	badPages          = gauge("rocm_gpu_bad_pages", "Bad memory pages; NVIDIA's replaced rows are harmless.", "state")
	throttleActive    = gauge("rocm_gpu_throttle_active", "1 while the limit slows the GPU down.", "reason")
	throttleResidency = counter("rocm_gpu_throttle_residency_total", "Ticks under a limit.", "reason")
	throttleTicks     = counter("rocm_gpu_throttle_ticks_total", "Firmware ticks.")
	gfxLimited        = counter("rocm_gpu_gfx_limited_total",
		"Time of a compute die below the requested clock.",
		"reason", "instance", "partition")
	partitions    = gauge("rocm_gpu_partitions", "Partitions of the GPU.")
	partitionInfo = gauge("rocm_gpu_partition_info", "Partition modes.", "compute", "memory")
	firmwareInfo  = gauge("rocm_gpu_firmware_info",
		"Version of each firmware component.", "component", "version", "model")
	memoryInfo       = gauge("rocm_gpu_memory_info", "Vendor of the video memory.", "vendor")
	performanceLevel = gauge("rocm_gpu_performance_level_info",
		"Performance level; auto unless a user set it.", "level")
	aerErrors   = counter("rocm_pcie_aer_errors_total", "PCIe errors of the GPU.", "severity")
	portErrors  = counter("rocm_pcie_port_aer_errors_total", "PCIe errors of a port above it.", "port", "severity")
	suspended   = gauge("rocm_gpu_suspended", "1 while the GPU sleeps to save power.")
	tableInfo   = gauge("rocm_gpu_metrics_info", "Revision of the driver's gpu_metrics table.", "revision")
	hangInfo    = gauge("rocm_gpu_hang_info", "1 for each active signal of a hang or reset.", "signal")
	hangEvents  = counter("rocm_gpu_hang_events_total", "Hangs and resets since the exporter started.")
	healthScore = gauge("rocm_gpu_health_score", "Health, 0 to 100.")
	healthy     = gauge("rocm_gpu_healthy", "0 if the GPU is critical, 1 if healthy or warning.")
	healthInfo  = gauge("rocm_gpu_health_info", "State of health.", "state")
	canCompute  = gauge("rocm_gpu_can_compute",
		"0 if no program can compute on the GPU through /dev/kfd, otherwise 1.")
	containerProcesses = gauge("rocm_gpu_container_processes", "Processes with the GPU open.", "container")
	containerOpen      = counter("rocm_gpu_container_open_seconds_total",
		"Time that processes had the GPU open.", "container")
	containerMemory = gauge("rocm_gpu_container_memory_bytes",
		"Memory of processes; kfd is mostly a part of vram.", "container", "kind")
	containerPeak = gauge("rocm_gpu_container_memory_peak_bytes",
		"Peak memory of a container, if the kernel has dmem.peak.", "container", "kind")
	containerEngine = counter("rocm_gpu_container_engine_seconds_total",
		"Busy time by engine, without ROCm's own queues.",
		"container", "engine")
	containerUnits = gauge("rocm_gpu_container_compute_units", "Compute units with ROCm work.", "container")
	diskSize       = ownGauge("concourse_worker_disk_bytes", "Size of the file system with the worker's volumes.")
	diskFree       = ownGauge("concourse_worker_disk_free_bytes", "Free space of that file system.")
	driverMatch    = ownGauge("concourse_gpu_driver_match",
		"1 if the next boot loads the running amdgpu module; absent in a container.",
		"running", "selected")

	// Leases.
	leaseHeld = gauge("rocm_gpu_lease_held", "1 if the GPU is leased, 0 if it is free.")
	leaseAge  = gauge("rocm_gpu_lease_age_seconds",
		"Age of the lease, with its holder.",
		"container", "kind", "namespace", "pod", "title")
	leaseDoubtful = gauge("rocm_gpu_lease_doubtful",
		"1 if the holder of the lease cannot be checked; see gpu-status.")
	leaseGranted = ownCounter("rocm_gpu_leases_granted_total", "Leases since boot.")
	leaseRefused = ownCounter("rocm_gpu_leases_refused_total",
		"Refused leases: busy, or impossible (the unit has fewer).", "reason")
	leaseHeldSeconds = ownCounter("rocm_gpu_lease_held_seconds_total",
		"Time of ended leases, summed over all GPUs.")

	// Service.
	serviceState    = gauge("rocm_gpu_service_state", "Service state; tasks get GPUs in service.", "state")
	quarantineTimes = counter("rocm_gpu_quarantines_total", "Times that the GPU was quarantined for its health.")
	serviceSeconds  = counter("rocm_gpu_quarantine_seconds_total", "Time that the GPU was quarantined or on probation.")
	containerFaults = gauge("rocm_gpu_container_faults",
		"GPU faults in the last day, by cause.",
		"container", "verdict")
	taskVerdicts = ownCounter("rocm_gpu_task_verdicts_total", "Ended tasks with GPU faults, by cause.", "verdict")

	// Tasks of the worker.
	endedTasks = ownCounter("concourse_worker_tasks_total",
		"Ended tasks since the recorder's start, by verdict or succeeded.",
		"verdict")
	taskEnergy = ownGauge("concourse_worker_task_energy_joules",
		"Energy of the GPUs of a task that ended in the last 10 minutes.",
		"container", "estimate")

	// The exporter itself.
	deviceUp   = gauge("rocm_exporter_device_up", "1 if the GPU answers or sleeps, otherwise 0.")
	gpus       = ownGauge("rocm_exporter_gpus", "Reported GPUs and partitions.")
	buildInfo  = ownGauge("rocm_exporter_build_info", "Version of the exporter.", "version", "goversion")
	pageInfo   = ownGauge("rocm_exporter_page_info", "URL of the status page, with --web.external-url.", "url")
	readErrors = ownCounter("rocm_exporter_read_errors_total",
		"Files without a usable value, by error.",
		"gpu", "file", "errno")
	unknownTables = counter("rocm_exporter_unknown_tables_total",
		"Binary tables of an unknown revision.", "file", "revision")
	usageLeftOut   = ownGauge("rocm_exporter_usage_left_out", "Unreadable users of GPUs, by reason.", "reason")
	usageSeconds   = ownGauge("rocm_exporter_usage_scan_seconds", "Duration of the last scan of processes.")
	leaseReportAge = ownGauge("rocm_exporter_lease_report_age_seconds",
		"Age of the lease data; from 120 on, leases are not shown.")
	serviceAge = ownGauge("rocm_exporter_service_report_age_seconds",
		"Age of the service states.")

	// NVIDIA's names and units.
	dcgmTemp    = gauge("DCGM_FI_DEV_GPU_TEMP", "Equals rocm_gpu_temperature.", "UUID", "modelName")
	dcgmUtil    = gauge("DCGM_FI_DEV_GPU_UTIL", "Equals rocm_gpu_utilization.", "UUID", "modelName")
	dcgmMemCopy = gauge("DCGM_FI_DEV_MEM_COPY_UTIL", "Equals rocm_memory_utilization.", "UUID", "modelName")
	dcgmUsed    = gauge("DCGM_FI_DEV_FB_USED", "rocm_memory_used in MiB.", "UUID", "modelName")
	dcgmFree    = gauge("DCGM_FI_DEV_FB_FREE",
		"rocm_memory_total minus rocm_memory_used in MiB.", "UUID", "modelName")
	dcgmTotal = gauge("DCGM_FI_DEV_FB_TOTAL", "rocm_memory_total in MiB.", "UUID", "modelName")
	dcgmPower = gauge("DCGM_FI_DEV_POWER_USAGE", "Equals rocm_power_usage.", "UUID", "modelName")
	dcgmTx    = gauge("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "rocm_pcie_tx in kB per second.", "UUID", "modelName")
	dcgmRx    = gauge("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "rocm_pcie_rx in kB per second.", "UUID", "modelName")
	dcgmDBE   = gauge("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
		"Equals rocm_gpu_ecc_errors_uncorrectable.", "UUID", "modelName")
)
