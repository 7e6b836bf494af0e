package amd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/wellknown"
)

// Severity rates the effect of an error on the work of a GPU.
type Severity string

// The severities, worst first.
const (
	SeverityCritical Severity = "Critical" // results may be wrong or lost: take the GPU out of service
	SeverityWarning  Severity = "Warning"  // slower, or about to become worse
	SeverityInfo     Severity = "Info"     // handled by the hardware; worth watching
)

// ErrorCode describes one kind of fault of a GPU. The numbers are from this charm and its
// predecessor, for people and alerts to refer to. AMD has no such numbers.
type ErrorCode struct {
	Code        int      `json:"code"`
	Name        string   `json:"name"`
	Severity    Severity `json:"severity"`
	Description string   `json:"description"`
	Causes      []string `json:"causes"`      // most likely first
	Actions     []string `json:"actions"`     // in the order of trying
	Link        string   `json:"link"`        // the kernel's documentation of the subsystem
	Detected    []Signal `json:"detected_by"` // any of them is sufficient
}

// Source is the place of a Signal.
type Source string

// The sources.
const (
	FromMetric Source = "metric" // of rocm-exporter, on port 9401
	FromSysfs  Source = "sysfs"  // below the GPU's /sys/bus/pci/devices/ADDRESS
	FromKernel Source = "kernel" // the kernel's log: journalctl -k
)

// Signal describes one sign of an error.
type Signal struct {
	Source Source `json:"source"`
	What   string `json:"what"`
}

// explainError finds an error by its number.
func explainError(code int) (ErrorCode, error) {
	all := ErrorCodes()
	if i := slices.IndexFunc(all, func(e ErrorCode) bool { return e.Code == code }); i >= 0 {
		return all[i], nil
	}
	return ErrorCode{}, unknownCode(strconv.Itoa(code))
}

// ParseErrorCode finds an error by the text of its number.
func ParseErrorCode(text string) (ErrorCode, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return ErrorCode{}, unknownCode(strconv.Quote(text))
	}
	return explainError(n)
}

func unknownCode(given string) error {
	var known []string
	for _, e := range ErrorCodes() {
		known = append(known, fmt.Sprintf("%d %s", e.Code, e.Name))
	}
	return fmt.Errorf("cannot explain error code %s: want one of %s", given, strings.Join(known, ", "))
}

const (
	docRAS     = "https://docs.kernel.org/gpu/amdgpu/ras.html"
	docThermal = "https://docs.kernel.org/gpu/amdgpu/thermal.html"
	docXGMI    = "https://docs.kernel.org/gpu/amdgpu/xgmi.html"
	docReset   = "https://docs.kernel.org/gpu/drm-uapi.html"
	docAER     = "https://docs.kernel.org/PCI/pcieaer-howto.html"
)

// ErrorCodes returns a copy of the whole table, by number. The kernel's messages are from
// amdgpu_ras.c, amdgpu_job.c and amdgpu_device.c in drivers/gpu/drm/amd/amdgpu, the
// throttle bits from amd/pm/swsmu/inc/amdgpu_smu.h.
func ErrorCodes() []ErrorCode {
	metric := func(what string) Signal { return Signal{FromMetric, what} }
	sysfs := func(what string) Signal { return Signal{FromSysfs, what} }
	kernel := func(what string) Signal { return Signal{FromKernel, what} }
	return []ErrorCode{
		{1, wellknown.GPUError(1), SeverityCritical,
			"The GPU's video memory returned data that could not be repaired, or has pages that are no longer " +
				"used because of it. What ran on the GPU at that time can't be trusted.",
			[]string{"a cell, row or stack of the video memory is worn out or defective",
				"memory that runs too hot or at settings beyond its specification",
				"an unsteady power supply of the card"},
			[]string{"run again what ran on this GPU when it happened",
				"take the GPU out of gpu-device-ids, so that no new task gets it",
				"reboot the machine: the driver retires pending pages when it starts",
				"look at gpu_vram_bad_pages; have the card replaced when pages keep being added"},
			docRAS,
			[]Signal{metric(`rocm_gpu_ras_errors_total{block="umc",severity="ue"} rises`),
				metric("rocm_gpu_bad_pages above 0"),
				sysfs("ue in ras/umc_err_count, and ras/gpu_vram_bad_pages"),
				kernel(`"uncorrectable hardware errors detected in umc block"`),
				kernel(`NVIDIA: "NVRM: Xid" 63, 64`)}},
		{2, wellknown.GPUError(2), SeverityCritical,
			"A ring of the GPU does not go on, or the driver is resetting the GPU. Work that was on it is lost; " +
				"other work waits.",
			[]string{"a kernel of the application that never ends or reads beyond its memory",
				"a defect of the driver or the GPU's firmware, often with a new kernel or ROCm release",
				"hardware: overheating, power, memory or the PCIe link (look for codes 1, 3, 4 and 7)"},
			[]string{"see whether the driver recovered: " + wellknown.Command + " gpu verify",
				"find the task that ran on it and keep it from starting again",
				"read the kernel's log around the first ring timeout",
				"reboot the machine when the reset failed; a GPU that hangs with any work needs service"},
			docReset,
			[]Signal{metric("rocm_gpu_hang is 1; rocm_gpu_hang_info names the signal"),
				metric("rocm_exporter_device_up is 0"),
				sysfs("/sys/class/devcoredump has a dump of this device; every reading is refused though " +
					"power/runtime_status is active"),
				kernel(`"ring ... timeout, signaled seq=", "GPU reset begin!", "GPU reset(1) succeeded!", ` +
					`"GPU Recovery Failed"`),
				kernel(`NVIDIA: "NVRM: Xid" 8, 46, 61, 62, 79, 109, 119, 120`)}},
		{3, wellknown.GPUError(3), SeverityWarning,
			"Packets between the GPU and the machine were damaged and sent again, or the link came up slower or " +
				"narrower than it can be. Transfers are slower; a link that fails altogether takes the GPU with it.",
			[]string{"a card, riser or cable that is not seated well",
				"a slot or switch with fewer lanes, or bifurcated by the firmware",
				"power saving of the link that one end does not do well"},
			[]string{"compare the link's speed and width under load with their maximum",
				"seat the card and its cables anew, or try another slot",
				"update the machine's firmware; try without ASPM (kernel parameter pcie_aspm=off)",
				"watch the rate: a few replays in a day are normal, many in a minute are not"},
			docAER,
			[]Signal{metric("rocm_pcie_replays_total or rocm_pcie_naks_total rises"),
				metric("rocm_pcie_link_lanes below rocm_pcie_link_max_lanes"),
				sysfs("pcie_replay_count; aer_dev_correctable, aer_dev_nonfatal and aer_dev_fatal; " +
					"current_link_speed and current_link_width"),
				kernel(`"AER:" and "PCIe Bus Error" with the GPU's address`)}},
		{4, wellknown.GPUError(4), SeverityWarning,
			"The GPU is at a limit of temperature and runs slower to stay below it. Nothing is lost but time; " +
				"heat over months shortens its life.",
			[]string{"too little air: dust, a failed fan, a blocked neighbour slot, an open air guide",
				"a passive card in a machine whose fans do not follow it",
				"warm intake air, or a cooler that has lost contact"},
			[]string{"see which sensor is at its limit: edge, junction or mem",
				"check fans, filters and the temperature of the room",
				"lower the power cap until the cause is mended (hwmon power1_cap)",
				"spread GPU work over more units (max_in_flight of the job, or tags)"},
			docThermal,
			[]Signal{metric("rocm_gpu_throttle_status above 0 (limits of temperature only)"),
				metric("rocm_gpu_temperature_celsius near rocm_gpu_temperature_crit_celsius"),
				sysfs("gpu_metrics: thermal bits of the throttle status, or thermal residency that grows; hwmon " +
					"temp*_input and temp*_crit"),
				kernel(`"GPU thermal throttling temperature reached"`)}},
		{5, wellknown.GPUError(5), SeverityWarning,
			"The GPU draws what it is allowed to and lowers its clocks to stay there. Under full load this is " +
				"normal; it is a fault when the cap is lower than meant or the load is light.",
			[]string{"heavy work: this is how the GPU finds its highest clock",
				"a power cap that somebody lowered",
				"a power supply or cable that reports less than the card needs"},
			[]string{"compare the power draw with its cap, and the cap with its maximum",
				"set the cap back (hwmon power1_cap, as root on the host)",
				"check the power connectors when the draw stays far below the cap",
				"do nothing when clocks and run times are as expected"},
			docThermal,
			[]Signal{metric(`rocm_gpu_throttle_active{reason=~"ppt.*|spl|fppt|sppt.*"} is 1`),
				metric(`rocm_gpu_throttle_residency_total{reason="ppt"} grows`),
				metric("rocm_power_usage at rocm_gpu_power_cap_watts"),
				sysfs("gpu_metrics: power bits of the throttle status, ppt residency; hwmon power1_cap")}},
		{6, wellknown.GPUError(6), SeverityInfo,
			"A bit was wrong and was set right by the hardware. Results are right. A few are normal on large " +
				"memories; a rising rate often comes before code 7.",
			[]string{"radiation and noise, on any machine now and then",
				"memory that begins to wear out",
				"heat"},
			[]string{"nothing, as long as they are rare",
				"watch the rate over days, by block",
				"plan a replacement when it rises steadily or always in one block"},
			docRAS,
			[]Signal{metric(`rocm_gpu_ras_errors_total{severity="ce"} rises`),
				sysfs("ce in ras/*_err_count"),
				kernel(`"N correctable hardware errors detected in"`)}},
		{7, wellknown.GPUError(7), SeverityCritical,
			"Data in a block of the GPU (caches, links, memory controller) was wrong beyond repair. What was " +
				"computed with it may be wrong; the driver may reset the GPU.",
			[]string{"defective memory or logic in the block that is named",
				"heat, or settings beyond the specification",
				"an unsteady power supply"},
			[]string{"run again what ran on this GPU when it happened",
				"take the GPU out of gpu-device-ids until it is checked",
				"reboot the machine: counters start anew with the driver, and clear the alert",
				"have the card replaced when it happens again; when the block is umc see code 1"},
			docRAS,
			[]Signal{metric("rocm_gpu_ecc_errors_uncorrectable rises"),
				metric(`rocm_gpu_ras_errors_total{severity="ue"} has the block`),
				sysfs("ue in ras/*_err_count, and ras/event_state"),
				kernel(`"uncorrectable hardware errors detected in"`),
				kernel(`NVIDIA: "NVRM: Xid" 48, 94, 95, 140`)}},
		{8, wellknown.GPUError(8), SeverityCritical,
			"A direct link between GPUs is down or loses data. Work on several GPUs fails or takes the slower " +
				"way over PCIe; work on one GPU goes on.",
			[]string{"a bridge or baseboard that is not seated well or defective",
				"one GPU of the group in reset or gone",
				"a group whose members have different firmware"},
			[]string{"see which link, and whether both its ends say so",
				"look for code 2 on the other GPUs of the group",
				"reboot the machine, so that the links are trained anew",
				"have bridge or baseboard checked when the same link fails again"},
			docXGMI,
			[]Signal{metric("rocm_xgmi_link_up is 0"),
				metric(`rocm_gpu_ras_errors_total{block="xgmi_wafl"} rises`),
				// Not xgmi_error, because reading that file clears it.
				sysfs("ras/xgmi_wafl_err_count; gpu_metrics from v1_7 on: xgmi_link_status"),
				kernel(`"hardware errors detected in xgmi_wafl block"`)}},
	}
}
