// Package amdgpu reads AMD GPUs on Linux from the files of the driver amdgpu in sysfs, and
// from its binary tables (package gpumetrics). It needs neither ROCm nor root: the files are
// readable by all. A program for a Prometheus exporter, a collector or a scheduler lists the
// GPUs once with Devices and makes a Reader of each:
//
//	devices, err := amdgpu.Devices("")
//	r := amdgpu.NewReader(devices[0], amdgpu.Options{})
//	s := r.Read()
//	if s.Power.Now.Known {
//		fmt.Println(s.Power.Now.Value, "W")
//	}
//
// # Units
//
// All values are in base units: degrees Celsius, watts, joules, hertz, volts, bytes,
// transfers per second, and shares from 0 to 1. A State names the file of each value. A
// value that the hardware lacks is unknown: it is never 0, and never the 65535 or the 32
// ones of a firmware. A value out of any plausible range is a failure.
//
// # Cost
//
// Read makes one system call for each of some 25 files, which stay open. Many of them make
// the driver ask the GPU's firmware, so read a GPU at most once a second. Poll reads limits,
// clock tables, firmware versions and error counters, and each counter asks the hardware.
// Call Poll every 10 seconds or less often. Read returns the values of the last Poll, too.
//
// A driver in trouble can hold a reading forever, and no signal ends it. Call Read in its
// own goroutine, wait with a limit, and start no second reading of this GPU. At names the
// file that hangs.
//
// # Errors
//
// Read returns no error. A file without its expected value is in State.Failures, with the
// symbol of errno(3), or "format", "range" or "damaged". A file that the GPU does not have
// is not a failure. State.Alive is false if no file has a value. State.Refused means that the
// driver rejects all readings, as it does during a reset. State.Lost names files that
// answered before and fail for seconds.
//
// # Guarantees
//
// The package writes nothing and never wakes a suspended GPU. It never reads xgmi_error,
// because reading clears it, or pcie_bw, because each read sleeps for a second in the
// kernel. It exports no metrics and judges no health.
//
// Names and units of this package are stable within a major version of the module. New
// fields, sensors and revisions of tables may be added in a minor one, so use names of
// fields in literals. The texts of sensors, clocks and reasons are the kernel's.
package amdgpu
