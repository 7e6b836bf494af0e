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
	temperature = gauge("rocm_gpu_temperature",
		"Temperature in degrees Celsius: at the die's edge, or its junction where there is no edge sensor.")
	utilization       = gauge("rocm_gpu_utilization", "Busy time of the graphics and compute engine in percent.")
	socketUtilization = gauge("rocm_gpu_socket_utilization",
		"Busy time of a whole GPU that is divided, in percent; rocm_gpu_utilization has each partition's own.")
	memoryUtilization = gauge("rocm_memory_utilization", "Busy time of the memory controller in percent.")
	memoryUsed        = gauge("rocm_memory_used", "Video memory in use in bytes.")
	memoryTotal       = gauge("rocm_memory_total", "Video memory in bytes; on an APU the carve-out.")
	power             = gauge("rocm_power_usage",
		"Power draw in watts, averaged where the GPU does so; on an APU of the whole package with the "+
			"processor, of which rocm_gpu_power_watts has the shares that are known.")
	pcieTx = gauge("rocm_pcie_tx",
		"Bytes per second that the GPU sends over PCIe, where it counts that (MI100, MI200, Vega): an upper "+
			"estimate from message counts.")
	pcieRx = gauge("rocm_pcie_rx",
		"Bytes per second that the GPU receives over PCIe, where it counts that (MI100, MI200, Vega): an upper "+
			"estimate from message counts.")
	eccUncorrectable = gauge("rocm_gpu_ecc_errors_uncorrectable",
		"Uncorrectable errors of all blocks since the driver was loaded.")
	hang = gauge("rocm_gpu_hang",
		"1 while any signal says that the GPU hangs or is being reset; rocm_gpu_hang_info has the signal.")
	throttleStatus = gauge("rocm_gpu_throttle_status",
		"How many thermal limits slow the GPU down; power limits do not count.")

	// Further values of a GPU. Their names begin with rocm for the GPUs of each vendor,
	// because dashboards and alerts already use them.
	gpuInfo = gauge("rocm_gpu_info",
		"Always 1; the labels tell what the GPU is. An empty one is not known.", "vendor", "name", "gfx",
		"vbios", "serial", "driver_version", "partition", "product_number", "numa_node")
	temperatureCelsius = gauge("rocm_gpu_temperature_celsius", "Temperature by sensor.", "sensor")
	temperatureCrit    = gauge("rocm_gpu_temperature_crit_celsius",
		"Temperature at which the GPU protects itself, by sensor.", "sensor")
	temperatureEmergency = gauge("rocm_gpu_temperature_emergency_celsius",
		"Temperature at which the GPU shuts down, by sensor.", "sensor")
	powerWatts = gauge("rocm_gpu_power_watts",
		"Power draw: averaged by the firmware, or of the moment; of an APU also the shares gfx and npu of the "+
			"package.", "kind")
	powerCap         = gauge("rocm_gpu_power_cap_watts", "Power limit that is set.")
	powerCapMax      = gauge("rocm_gpu_power_cap_max_watts", "Power limit that can be set at most.")
	boardTemperature = gauge("rocm_gpu_board_temperature_celsius",
		"Temperature of the boards that the GPU sits on, by sensor (MI350 and later).", "sensor")
	boardPower = gauge("rocm_gpu_board_power_watts",
		"Power draw of the baseboard, as this GPU tells; the other GPUs on it tell the same.")
	boardPowerCap = gauge("rocm_gpu_board_power_cap_watts", "Power limit of the baseboard.")
	nodePower     = gauge("rocm_gpu_node_power_watts",
		"Power draw of the whole node, as this GPU tells; the other GPUs in it tell the same.")
	nodePowerCap    = gauge("rocm_gpu_node_power_cap_watts", "Power limit of the whole node that is set.")
	nodePowerCapMax = gauge("rocm_gpu_node_power_cap_max_watts",
		"Power limit of the whole node that can be set at most.")
	energyJoules = counter("rocm_gpu_energy_joules_total",
		"Energy used since the driver was loaded, where the unit of the counter is known.")
	clockHertz = gauge("rocm_gpu_clock_hertz",
		"Clock by domain, and by instance where there are several.", "clock", "instance")
	clockMin    = gauge("rocm_gpu_clock_min_hertz", "Lowest clock that the domain can be set to.", "clock")
	clockMax    = gauge("rocm_gpu_clock_max_hertz", "Highest clock that the domain can be set to.", "clock")
	voltage     = gauge("rocm_gpu_voltage_volts", "Voltage by rail.", "rail")
	fanRPM      = gauge("rocm_gpu_fan_rpm", "Fan speed in turns per minute.")
	fanMax      = gauge("rocm_gpu_fan_max_rpm", "Highest fan speed in turns per minute.")
	fanRatio    = gauge("rocm_gpu_fan_pwm_ratio", "Fan drive, 0 to 1.")
	activity    = gauge("rocm_gpu_activity_ratio", "Busy time by kind of engine, 0 to 1.", "engine")
	activitySum = counter("rocm_gpu_activity_sum_total",
		"Busy time as the firmware sums it up, by kind of engine, in a unit that it does not tell.", "engine")
	engineBusy = gauge("rocm_gpu_engine_busy_ratio", "Busy time of each engine, 0 to 1.", "engine",
		"instance", "partition")
	vramBytes = gauge("rocm_gpu_vram_bytes",
		"Memory by kind: video memory, the part of it that the processor can see, and system memory the GPU may "+
			"use (gtt).", "kind", "state")
	memoryBandwidthMax = gauge("rocm_gpu_memory_bandwidth_max_bytes_per_second",
		"Highest bandwidth of the video memory.")
	memoryTraffic = gauge("rocm_gpu_memory_traffic_bytes_per_second",
		"Bytes per second to and from the memory of an APU, by direction: of the whole package with the "+
			"processor, and of its NPU.", "engine", "direction")
	pcieSpeed    = gauge("rocm_pcie_link_speed_transfers_per_second", "PCIe speed of a lane now.")
	pcieSpeedMax = gauge("rocm_pcie_link_max_speed_transfers_per_second",
		"PCIe speed of a lane at most: of the GPU, or of the port above it if that is slower.")
	pcieLanes    = gauge("rocm_pcie_link_lanes", "PCIe lanes in use.")
	pcieLanesMax = gauge("rocm_pcie_link_max_lanes",
		"PCIe lanes at most: of the GPU, or of the port above it if that has fewer.")
	pcieReplays    = counter("rocm_pcie_replays_total", "PCIe packets sent again.")
	pcieRollovers  = counter("rocm_pcie_replay_rollovers_total", "PCIe replays that had to retrain the link.")
	pcieRecoveries = counter("rocm_pcie_recoveries_total", "Times the PCIe link went from working to recovery.")
	pcieOtherEnd   = counter("rocm_pcie_other_end_recoveries_total", "PCIe recoveries that the other end began.")
	pcieNAKs       = counter("rocm_pcie_naks_total", "PCIe packets refused, by direction of the refusal.",
		"direction")
	xgmiBytes = counter("rocm_xgmi_bytes_total", "Bytes over each XGMI link.", "direction", "link")
	xgmiUp    = gauge("rocm_xgmi_link_up", "1 when the XGMI link is up.", "link")
	xgmiLanes = gauge("rocm_xgmi_link_lanes", "Lanes of an XGMI link.")
	xgmiSpeed = gauge("rocm_xgmi_link_speed_transfers_per_second", "XGMI speed of a lane.")
	rasErrors = counter("rocm_gpu_ras_errors_total",
		"Errors since the driver was loaded, by block and severity: ce corrected, de deferred, ue uncorrectable.",
		"block", "severity")
	badPages = gauge("rocm_gpu_bad_pages",
		"Bad pages of video memory: retired, pending until a reboot, or unreservable; of NVIDIA's GPUs rows, of "+
			"which replaced are no fault.", "state")
	throttleActive = gauge("rocm_gpu_throttle_active",
		"1 while the limit slows the GPU down; of heat where the sensor is near its limit. Reason unspecified "+
			"where the GPU has its own codes, or no sensor for what the firmware says.", "reason")
	throttleResidency = counter("rocm_gpu_throttle_residency_total",
		"Firmware ticks spent under a limit; rocm_gpu_throttle_ticks_total counts all.", "reason")
	throttleTicks = counter("rocm_gpu_throttle_ticks_total", "Firmware ticks, whatever the limits.")
	gfxLimited    = counter("rocm_gpu_gfx_limited_total",
		"Sums of the time that a compute die ran below the clock the host asked for.", "reason", "instance",
		"partition")
	partitions    = gauge("rocm_gpu_partitions", "Partitions that the GPU is divided into.")
	partitionInfo = gauge("rocm_gpu_partition_info",
		"Always 1; the labels tell how compute and memory are divided.", "compute", "memory")
	firmwareInfo = gauge("rocm_gpu_firmware_info",
		"Always 1; the version of each firmware component, as the driver writes it.", "component", "version", "model")
	memoryInfo       = gauge("rocm_gpu_memory_info", "Always 1; who made the video memory.", "vendor")
	performanceLevel = gauge("rocm_gpu_performance_level_info",
		"Always 1; how clocks are chosen: auto is the driver's own way, manual, low and others were set by somebody.",
		"level")
	aerErrors = counter("rocm_pcie_aer_errors_total",
		"Errors that PCIe reported for the GPU since it was found, by severity: correctable, nonfatal, fatal.",
		"severity")
	suspended = gauge("rocm_gpu_suspended",
		"1 while the GPU is asleep to save power; it is not woken for its values.")
	tableInfo = gauge("rocm_gpu_metrics_info",
		"Always 1; the revision of the driver's gpu_metrics table.", "revision")
	hangInfo = gauge("rocm_gpu_hang_info",
		"1 for each signal that says now that the GPU hangs or is being reset.", "signal")
	hangEvents  = counter("rocm_gpu_hang_events_total", "Hangs and resets seen since the exporter was started.")
	healthScore = gauge("rocm_gpu_health_score",
		"0 to 100: package health of the exporter has the formula. Absent where too little is known.")
	healthy = gauge("rocm_gpu_healthy",
		"0 when the GPU is in a critical state, 1 when it is healthy or has a warning. Absent where too little "+
			"is known.")
	healthInfo = gauge("rocm_gpu_health_info",
		"Always 1; the state is healthy, warning, critical or unknown.", "state")
	containerProcesses = gauge("rocm_gpu_container_processes",
		"Processes of a container that hold the GPU open; container is empty for those in none.", "container")
	containerOpen = counter("rocm_gpu_container_open_seconds_total",
		"Time that processes of the container have had the GPU open, as far as the looks at them tell.", "container")
	containerMemory = gauge("rocm_gpu_container_memory_bytes",
		"Memory that a container's processes hold, by kind; kfd is what KFD counts for itself, mostly a part of vram.",
		"container", "kind")
	containerPeak = gauge("rocm_gpu_container_memory_peak_bytes",
		"Most memory of the kind that a container had at a time, since it was made; where the kernel counts it "+
			"(dmem.peak of control groups, version 2).", "container", "kind")
	containerEngine = counter("rocm_gpu_container_engine_seconds_total",
		"Busy time of each engine for a container's processes. Work that ROCm hands to the GPU by itself is not "+
			"counted by the kernel.", "container", "engine")
	containerUnits = gauge("rocm_gpu_container_compute_units",
		"Compute units with ROCm work of a container in them, where the GPU tells.", "container")
	diskSize    = ownGauge("concourse_worker_disk_bytes", "Size of the file system that the worker has its volumes on.")
	diskFree    = ownGauge("concourse_worker_disk_free_bytes", "What is free of that file system.")
	driverMatch = ownGauge("concourse_gpu_driver_match",
		"1 when the amdgpu module in use is the one that would be loaded at the next boot. Absent where that "+
			"can't be told, as in a container.", "running", "selected")

	// Leases.
	leaseHeld = gauge("rocm_gpu_lease_held",
		"1 while a task, container or pod has the GPU for its own, 0 while it is free, with gpu-sharing=exclusive.")
	leaseAge = gauge("rocm_gpu_lease_age_seconds",
		"How long the container has had the GPU, and what it is: a task, another engine's container, or a pod's.",
		"container", "kind", "namespace", "pod")
	leaseDoubtful = gauge("rocm_gpu_lease_doubtful",
		"1 while the GPU counts as held though it could not be seen that its holder lives; the action "+
			"gpu-status says why.")
	leaseGranted = ownCounter("rocm_gpu_leases_granted_total",
		"Tasks, containers and pods that got GPUs for their own since the machine started.")
	leaseRefused = ownCounter("rocm_gpu_leases_refused_total",
		"Those that got none: busy (too few are free), impossible (the unit has fewer).", "reason")
	leaseHeldSeconds = ownCounter("rocm_gpu_lease_held_seconds_total",
		"Time that GPUs were held, summed over the GPUs, counted when a lease's end is seen.")

	// Service.
	serviceState = gauge("rocm_gpu_service_state",
		"Always 1; the state is in_service, withheld or proving (well again, and on trial). Tasks get GPUs that "+
			"are in service.", "state")
	withheldTimes = counter("rocm_gpu_withheld_total",
		"How often the GPU was withheld because it was sick, on trial or not, since the unit has it.")
	serviceSeconds = counter("rocm_gpu_withheld_seconds_total",
		"Time that the GPU was withheld from tasks, on trial or not, since the unit has it.")
	containerFaults = gauge("rocm_gpu_container_faults",
		"Faults of the GPU that the container met, for a day. The verdict is whose they are: infrastructure, or "+
			"the task's own.", "container", "verdict")
	taskVerdicts = ownCounter("rocm_gpu_task_verdicts_total",
		"Tasks that met faults of GPUs and have ended, by verdict: infrastructure, or the task's own.", "verdict")

	// The exporter itself.
	deviceUp = gauge("rocm_exporter_device_up",
		"1 when the GPU answered in time or was left asleep, 0 when its files fail or hang.")
	gpus      = ownGauge("rocm_exporter_gpus", "GPUs that are reported on; each partition counts.")
	buildInfo = ownGauge("rocm_exporter_build_info", "Always 1; the labels tell the exporter's version.",
		"version", "goversion")
	readErrors = ownCounter("rocm_exporter_read_errors_total",
		"Files that had no usable value, by error: an errno, or format, range, damaged or timeout.", "gpu",
		"file", "errno")
	unknownTables = counter("rocm_exporter_unknown_tables_total",
		"Binary tables of a revision that the exporter has no layout for.", "file", "revision")
	usageLeftOut = ownGauge("rocm_exporter_usage_left_out",
		"What the last look at the users of the GPUs could not tell about, by reason.", "reason")
	usageSeconds = ownGauge("rocm_exporter_usage_scan_seconds",
		"How long the last look through the machine's processes took.")
	leaseReportAge = ownGauge("rocm_exporter_lease_report_age_seconds",
		"How old what is known of leases is; from 120 on, leases are not shown.")
	serviceAge = ownGauge("rocm_exporter_service_report_age_seconds",
		"How long ago it was last decided which GPUs are withheld.")

	// NVIDIA's names and units.
	dcgmTemp = gauge("DCGM_FI_DEV_GPU_TEMP",
		"rocm_gpu_temperature under the name that NVIDIA's exporter has.", "UUID", "modelName")
	dcgmUtil = gauge("DCGM_FI_DEV_GPU_UTIL",
		"rocm_gpu_utilization under the name that NVIDIA's exporter has.", "UUID", "modelName")
	dcgmMemCopy = gauge("DCGM_FI_DEV_MEM_COPY_UTIL",
		"rocm_memory_utilization under the name that NVIDIA's exporter has.", "UUID", "modelName")
	dcgmUsed  = gauge("DCGM_FI_DEV_FB_USED", "rocm_memory_used in MiB.", "UUID", "modelName")
	dcgmFree  = gauge("DCGM_FI_DEV_FB_FREE", "rocm_memory_total less rocm_memory_used in MiB.", "UUID", "modelName")
	dcgmTotal = gauge("DCGM_FI_DEV_FB_TOTAL", "rocm_memory_total in MiB.", "UUID", "modelName")
	dcgmPower = gauge("DCGM_FI_DEV_POWER_USAGE", "rocm_power_usage under the name that NVIDIA's exporter has.",
		"UUID", "modelName")
	dcgmTx = gauge("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "rocm_pcie_tx in kilobytes (1000) per second.", "UUID",
		"modelName")
	dcgmRx = gauge("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "rocm_pcie_rx in kilobytes (1000) per second.", "UUID",
		"modelName")
	dcgmDBE = gauge("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
		"rocm_gpu_ecc_errors_uncorrectable under the name that NVIDIA's exporter has.", "UUID", "modelName")
)
