package taskrecord

// Counters of the machine's samples. Times are sums in microseconds, sizes are bytes. The
// first ones are of the container, the last ones of the whole machine.
const (
	CPUUsage = iota
	CPUPeriods
	CPUThrottledPeriods
	CPUStall // some processes of the container waited for a CPU (PSI)
	CPUStallFull
	MemoryStall
	MemoryStallFull
	IOStall
	IOStallFull
	MemoryUsed // without pages of files that can be dropped
	MemoryPeak
	MemoryLimitHits
	OOMKills
	MajorFaults
	DiskRead
	DiskWritten
	NetReceived
	NetSent
	NetErrors // and drops
	TCPSegments
	TCPResent
	TCPSynResent
	TCPOpen
	UDPSent
	UDPReceived
	DNSWaiting // sockets that wait for a name server
	Processes
	DiskFree // of the worker's volumes
	DiskSize
	InodesFree
	MachineCPUStall
	MachineMemoryStall
	MachineIOStall
	MachineMemoryFree
	MachineMemory
	MachineCPUBusy
	Neighbours // other containers
	NeighboursCPU
	NeighboursMemory
	NeighbourMemory // of the largest one
	NeighboursIO    // read and written
	NeighboursWritten
	WebConnections // of the worker to webs
	NumCounters
)

// Counters names the machine's counters in files and in JSON.
var Counters = [NumCounters]string{
	CPUUsage: "cpu_us", CPUPeriods: "cpu_periods", CPUThrottledPeriods: "cpu_throttled_periods",
	CPUStall: "cpu_stall_us", CPUStallFull: "cpu_stall_full_us", MemoryStall: "memory_stall_us",
	MemoryStallFull: "memory_stall_full_us", IOStall: "io_stall_us", IOStallFull: "io_stall_full_us",
	MemoryUsed: "memory_bytes", MemoryPeak: "memory_peak_bytes", MemoryLimitHits: "memory_limit_hits", OOMKills: "oom_kills",
	MajorFaults: "major_faults", DiskRead: "disk_read_bytes", DiskWritten: "disk_written_bytes",
	NetReceived: "net_received_bytes", NetSent: "net_sent_bytes", NetErrors: "net_errors",
	TCPSegments: "tcp_segments", TCPResent: "tcp_resent", TCPSynResent: "tcp_syn_resent", TCPOpen: "tcp_open",
	UDPSent: "udp_sent", UDPReceived: "udp_received", DNSWaiting: "dns_waiting", Processes: "processes",
	DiskFree: "disk_free_bytes", DiskSize: "disk_size_bytes", InodesFree: "inodes_free",
	MachineCPUStall: "machine_cpu_stall_us", MachineMemoryStall: "machine_memory_stall_full_us",
	MachineIOStall: "machine_io_stall_full_us", MachineMemoryFree: "machine_memory_free_bytes",
	MachineMemory: "machine_memory_bytes", MachineCPUBusy: "machine_cpu_busy_us", Neighbours: "neighbours",
	NeighboursCPU: "neighbours_cpu_us", NeighboursMemory: "neighbours_memory_bytes",
	NeighbourMemory: "largest_neighbour_bytes", NeighboursIO: "neighbours_io_bytes",
	NeighboursWritten: "neighbours_written_bytes",
	WebConnections:    "web_connections",
}

// Counters of a GPU's samples.
const (
	Clock       = iota // MHz, of graphics
	MemoryClock        // MHz
	Busy               // thousandths
	MemoryBusy
	Temperature // tenths of a degree Celsius, of the sensor nearest its limit
	TemperatureLimit
	Power         // mW
	EnergySum     // mJ
	VideoUsed     // bytes of video memory
	VideoSize     // bytes
	Thermal       // thousandths of the time under a thermal limit
	Alive         // 1, or 0 without an answer
	Asleep        // 1 while the GPU is suspended
	Uncorrectable // errors, a sum
	Correctable
	BadPages
	Hanging // 1 while there is a sign of a hang
	Tasks   // with this GPU or another partition of its card
	Share   // millionths of the card's work that the task did since the previous Share
	Users   // who worked on the GPU up to a scan of its users: NoUser to TaskWaits
	NumGPUCounters
)

// Values of Users. Missing is a scan that cannot show it.
const (
	NoUser     = iota // no client worked, and the task had not opened it
	TaskWorks         // the task, perhaps with others
	OthersWork        // only others
	TaskWaits         // no client worked, and the task had opened it
)

// GPUCounters names the counters of a GPU in files and in JSON.
var GPUCounters = [NumGPUCounters]string{
	Clock: "clock_mhz", MemoryClock: "memory_clock_mhz", Busy: "busy_permille", MemoryBusy: "memory_busy_permille",
	Temperature: "temperature_decicelsius", TemperatureLimit: "temperature_limit_decicelsius",
	Power: "power_milliwatts", EnergySum: "energy_millijoules", VideoUsed: "video_memory_bytes",
	VideoSize: "video_memory_size_bytes", Thermal: "thermal_permille", Alive: "alive", Asleep: "asleep",
	Uncorrectable: "uncorrectable_errors", Correctable: "correctable_errors", BadPages: "bad_pages",
	Hanging: "hanging", Tasks: "tasks", Share: "work_share_ppm", Users: "users",
}
