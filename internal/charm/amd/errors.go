package amd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Severity rates the effect of an error on the work of a GPU.
type Severity string

// The severities, worst first.
const (
	SeverityCritical Severity = "Critical" // results may be wrong or lost: quarantine the GPU
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
func explainError(code int, program string) (ErrorCode, error) {
	all := ErrorCodes(program)
	if i := slices.IndexFunc(all, func(e ErrorCode) bool { return e.Code == code }); i >= 0 {
		return all[i], nil
	}
	return ErrorCode{}, unknownCode(strconv.Itoa(code))
}

// ParseErrorCode finds an error by the text of its number.
func ParseErrorCode(text, program string) (ErrorCode, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return ErrorCode{}, unknownCode(strconv.Quote(text))
	}
	return explainError(n, program)
}

func unknownCode(given string) error {
	var known []string
	for _, e := range ErrorCodes("") {
		known = append(known, fmt.Sprintf("%d %s", e.Code, e.Name))
	}
	return fmt.Errorf("cannot explain error code %s: want one of %s", given, strings.Join(known, ", "))
}

// Documentation is AMD's documentation of ROCm and its tools. AMD has no page for each error.
const Documentation = "https://rocm.docs.amd.com/"

const (
	docRAS     = "https://docs.kernel.org/gpu/amdgpu/ras.html"
	docThermal = "https://docs.kernel.org/gpu/amdgpu/thermal.html"
	docXGMI    = "https://docs.kernel.org/gpu/amdgpu/xgmi.html"
	docReset   = "https://docs.kernel.org/gpu/drm-uapi.html"
	docAER     = "https://docs.kernel.org/PCI/pcieaer-howto.html"
)

// ErrorCodes returns a copy of the whole table, by number. Package signs has all messages of
// the kernel; the throttle bits are from amd/pm/swsmu/inc/amdgpu_smu.h.
func ErrorCodes(program string) []ErrorCode {
	metric := func(what string) Signal { return Signal{FromMetric, what} }
	sysfs := func(what string) Signal { return Signal{FromSysfs, what} }
	kernel := func(what string) Signal { return Signal{FromKernel, what} }
	return []ErrorCode{
		{1, wellknown.GPUError(1), SeverityCritical,
			"The video memory returned data that could not be repaired, or has retired pages. Do not trust the " +
				"results of that time.",
			[]string{"defective video memory",
				"memory that is too hot or overclocked",
				"an unstable power supply"},
			[]string{"run again what ran on this GPU",
				"remove the GPU from gpu-device-ids",
				"reboot the machine: the driver retires pending pages",
				"replace the card if gpu_vram_bad_pages grows"},
			docRAS,
			[]Signal{metric(`rocm_gpu_ras_errors_total{block="umc",severity="ue"} rises`),
				metric("rocm_gpu_bad_pages above 0"),
				sysfs("ue in ras/umc_err_count; ras/gpu_vram_bad_pages"),
				kernel(`"uncorrectable hardware errors detected in umc block"`),
				kernel(`NVIDIA: "NVRM: Xid" 63, 64`)}},
		{2, wellknown.GPUError(2), SeverityCritical,
			"A ring or the firmware of the GPU hangs, or the driver resets the GPU. Its work is lost.",
			[]string{"a GPU kernel that never ends or reads beyond its memory",
				"a defect of driver or firmware, often with a new kernel or ROCm",
				"hardware: heat, power, memory or the PCIe link (codes 1, 3, 4 and 7)"},
			[]string{"check whether the driver recovered: " + program + " gpu verify",
				"stop the task that ran on it",
				"read the kernel's log around the first ring timeout",
				"reset the GPU if it still hangs: amd-smi reset --gpureset --gpu N, as root on the host; " +
					"reboot the machine if the reset fails",
				"update the driver if it hangs again with other tasks: rocm-version, or the host's kernel",
				"replace a GPU that hangs with any work"},
			docReset,
			[]Signal{metric("rocm_gpu_hang is 1; rocm_gpu_hang_info has the signal"),
				metric("rocm_exporter_device_up is 0"),
				sysfs("/sys/class/devcoredump has a dump of this device; all files fail though " +
					"power/runtime_status is active"),
				kernel(`"ring ... timeout, signaled seq=", "MES failed to respond to msg=REMOVE_QUEUE", "GPU reset begin!", ` +
					`"GPU reset(1) succeeded!", "GPU Recovery Failed"`),
				kernel(`NVIDIA: "NVRM: Xid" 8, 46, 61, 62, 79, 109, 119, 120`)}},
		{3, wellknown.GPUError(3), SeverityWarning,
			"PCIe packets were damaged and sent again, or the link is slower or narrower than possible. " +
				"Transfers are slower; a dead link removes the GPU.",
			[]string{"a loose card, riser or cable",
				"a slot or switch with fewer lanes, or bifurcated by the firmware",
				"power saving of the link"},
			[]string{"compare the link's speed and width under load with their maximum",
				"reseat the card and its cables, or try another slot",
				"update the machine's firmware; try the kernel parameter pcie_aspm=off",
				"watch the rate: a few replays a day are normal"},
			docAER,
			[]Signal{metric("rocm_pcie_replays_total or rocm_pcie_naks_total rises"),
				metric("rocm_pcie_link_lanes below rocm_pcie_link_max_lanes"),
				sysfs("pcie_replay_count; aer_dev_correctable, aer_dev_nonfatal, aer_dev_fatal; " +
					"current_link_speed, current_link_width"),
				kernel(`"PCIe Bus Error: severity=", "Slot(...): Link Down", "device lost from bus!"`)}},
		{4, wellknown.GPUError(4), SeverityWarning,
			"The GPU is at a temperature limit and slows down. Results are right; long heat shortens its life.",
			[]string{"too little air: dust, a failed fan, a blocked slot, an open air guide",
				"a passive card, and fans that do not follow it",
				"warm intake air, or a loose cooler"},
			[]string{"find the sensor at its limit: edge, junction or mem",
				"check fans, filters and room temperature",
				"lower the power cap until it is fixed (hwmon power1_cap)",
				"spread GPU work over more units (max_in_flight of the job, or tags)"},
			docThermal,
			[]Signal{metric("rocm_gpu_throttle_status above 0"),
				metric("rocm_gpu_temperature_celsius near rocm_gpu_temperature_crit_celsius"),
				sysfs("gpu_metrics: thermal throttle bits or growing thermal residency; hwmon temp*_input, temp*_crit"),
				kernel(`"GPU thermal throttling temperature reached"`)}},
		{5, wellknown.GPUError(5), SeverityWarning,
			"The GPU is at its power limit and lowers its clocks. This is normal under full load, and a fault " +
				"under light load or with a cap that is too low.",
			[]string{"heavy work, which is normal",
				"a lowered power cap",
				"a power supply or cable with too little power"},
			[]string{"compare the power draw with its cap, and the cap with its maximum",
				"reset the cap (hwmon power1_cap, as root on the host)",
				"check the power connectors if the draw stays far below the cap",
				"do nothing if clocks and run times are as expected"},
			docThermal,
			[]Signal{metric(`rocm_gpu_throttle_active{reason=~"ppt.*|spl|fppt|sppt.*"} is 1`),
				metric(`rocm_gpu_throttle_residency_total{reason="ppt"} grows`),
				metric("rocm_power_usage at rocm_gpu_power_cap_watts"),
				sysfs("gpu_metrics: power throttle bits, ppt residency; hwmon power1_cap")}},
		{6, wellknown.GPUError(6), SeverityInfo,
			"The hardware corrected a bit. Results are right. A rising rate often precedes code 7.",
			[]string{"radiation and noise", "wear of the memory", "heat"},
			[]string{"do nothing while they are rare",
				"watch the rate over days, by block",
				"plan a replacement if it rises steadily or always in one block"},
			docRAS,
			[]Signal{metric(`rocm_gpu_ras_errors_total{severity="ce"} rises`),
				sysfs("ce in ras/*_err_count"),
				kernel(`"N correctable hardware errors detected in"`)}},
		{7, wellknown.GPUError(7), SeverityCritical,
			"Data in a block of the GPU (caches, links, memory controller) was damaged. Results may be wrong, and " +
				"the driver may reset the GPU.",
			[]string{"defective memory or logic in that block", "heat, or overclocking", "an unstable power supply"},
			[]string{"run again what ran on this GPU",
				"remove the GPU from gpu-device-ids until it is checked",
				"reboot the machine, which ends the alert",
				"replace the card if it happens again; for the block umc see code 1"},
			docRAS,
			[]Signal{metric("rocm_gpu_ecc_errors_uncorrectable rises"),
				metric(`rocm_gpu_ras_errors_total{severity="ue"} has the block`),
				sysfs("ue in ras/*_err_count; ras/event_state"),
				kernel(`"uncorrectable hardware errors detected in"`),
				kernel(`NVIDIA: "NVRM: Xid" 48, 94, 95, 140`)}},
		{8, wellknown.GPUError(8), SeverityCritical,
			"A direct link between GPUs is down or loses data. Work on several GPUs fails or uses the slower PCIe; " +
				"work on one GPU continues.",
			[]string{"a loose or defective bridge or baseboard",
				"one GPU of the group in reset or missing",
				"different firmware in the group"},
			[]string{"find the link, and whether both ends report it",
				"look for code 2 on the other GPUs of the group",
				"reboot the machine to train the links again",
				"check bridge or baseboard if the same link fails again"},
			docXGMI,
			[]Signal{metric("rocm_xgmi_link_up is 0"),
				metric(`rocm_gpu_ras_errors_total{block="xgmi_wafl"} rises`),
				// Not xgmi_error, because reading that file clears it.
				sysfs("ras/xgmi_wafl_err_count; gpu_metrics from v1_7 on: xgmi_link_status"),
				kernel(`"XGMI PCS ... detected", "socket: ... xgmi link training failed"`)}},
	}
}
