//go:build e2e

package peers

import (
	"encoding/hex"
	"strings"
)

// row is a value of rocm-smi and the series with the same meaning.
type row struct {
	flags, key string // of rocm-smi
	pick       string // the part of its value, as a pattern; empty: all of it
	series     string // a metric with labels
	label      string // its label that is compared; empty: its value
	times      float64
	within     float64 // the largest difference; 0: none
	why        string  // the reason for a difference of that size
	alike      func(theirs string) string
	except     map[string]string // machines with another value, and the reason
}

// Clocks and links of rocm-smi are text.
const mhz, speed, lanes = `^\(([0-9]+)Mhz\)$`, `\(([0-9.]+)GT/s`, ` x([0-9]+)\)$`

var rows = []row{
	{flags: "--showbus", key: "PCI Bus", series: "rocm_gpu_info", label: "pci_bus_id", alike: strings.ToLower},
	{flags: "--showvbios", key: "VBIOS version", series: "rocm_gpu_info", label: "vbios"},
	{flags: "--showuniqueid", key: "Unique ID", pick: "^0x(.+)$", series: "rocm_gpu_info", label: "uuid",
		alike: func(id string) string { return "GPU-" + id }},
	{flags: "--showserial", key: "Serial Number", series: "rocm_gpu_info", label: "serial"},
	{flags: "--showproductname", key: "Card series", series: "rocm_gpu_info", label: "name", except: map[string]string{
		"RX 7900 XT": "a card without product_name has its name from pci.ids there, which may be missing",
		"APU":        "a card without product_name has its name from pci.ids there, which may be missing"}},
	{flags: "--showdriverversion", key: "Driver version", series: "rocm_gpu_info", label: "driver_version"},
	{flags: "--showmemvendor", key: "GPU memory vendor", series: "rocm_gpu_memory_info", label: "vendor"},
	{flags: "--showperflevel", key: "Performance Level", series: "rocm_gpu_performance_level_info", label: "level"},
	{flags: "--showfwinfo", key: "SMC firmware version", series: "rocm_gpu_firmware_info component=smc", label: "version", alike: firmware},

	{flags: "--showtemp", key: "Temperature (Sensor edge) (C)", series: "rocm_gpu_temperature"},
	{flags: "--showtemp", key: "Temperature (Sensor edge) (C)", series: "rocm_gpu_temperature_celsius sensor=edge"},
	{flags: "--showtemp", key: "Temperature (Sensor junction) (C)", series: "rocm_gpu_temperature_celsius sensor=junction"},
	{flags: "--showtemp", key: "Temperature (Sensor memory) (C)", series: "rocm_gpu_temperature_celsius sensor=mem"},
	{flags: "--showtemp", key: "Temperature (Sensor HBM 0) (C)", series: "rocm_gpu_temperature_celsius sensor=hbm0"},
	{flags: "--showtemp", key: "Temperature (Sensor HBM 1) (C)", series: "rocm_gpu_temperature_celsius sensor=hbm1"},
	{flags: "--showtemp", key: "Temperature (Sensor HBM 2) (C)", series: "rocm_gpu_temperature_celsius sensor=hbm2"},
	{flags: "--showtemp", key: "Temperature (Sensor HBM 3) (C)", series: "rocm_gpu_temperature_celsius sensor=hbm3"},
	{flags: "--showfan", key: "Fan RPM", series: "rocm_gpu_fan_rpm"},
	{flags: "--showfan", key: "Fan speed (level)", series: "rocm_gpu_fan_pwm_ratio", times: 1. / 255},
	{flags: "--showfan", key: "Fan speed (%)", series: "rocm_gpu_fan_pwm_ratio", times: 0.01, within: 0.005, why: "it is a whole percent there"},
	{flags: "--showvoltage", key: "Voltage (mV)", series: "rocm_gpu_voltage_volts rail=vddgfx", times: 1e-3},

	{flags: "--showpower", key: "Average Graphics Package Power (W)", series: "rocm_power_usage"},
	{flags: "--showpower", key: "Average Graphics Package Power (W)", series: "rocm_gpu_power_watts kind=average"},
	{flags: "--showmaxpower", key: "Max Graphics Package Power (W)", series: "rocm_gpu_power_cap_watts"},
	{flags: "--showenergycounter", key: "Energy counter", series: "rocm_gpu_energy_joules_total", times: 1. / 65536, except: notEnergy},
	{flags: "--showenergycounter", key: "Accumulated Energy (uJ)", series: "rocm_gpu_energy_joules_total", times: 1e-6, within: 20_000,
		why: "it takes a unit for 15.3 microjoules, which is 1/65536 joules: 0.27 % more", except: notEnergy},

	{flags: "--showuse", key: "GPU use (%)", series: "rocm_gpu_utilization"},
	{flags: "--showuse", key: "GPU use (%)", series: "rocm_gpu_activity_ratio engine=gfx", times: 0.01},
	{flags: "--showuse", key: "GFX Activity", series: "rocm_gpu_activity_sum_total engine=gfx"},
	{flags: "--showmemuse", key: "GPU memory use (%)", series: "rocm_memory_utilization"},
	{flags: "--showmemuse", key: "GPU memory use (%)", series: "rocm_gpu_activity_ratio engine=memory", times: 0.01},
	{flags: "--showmemuse", key: "Memory Activity", series: "rocm_gpu_activity_sum_total engine=memory"},
	{flags: "--showmeminfo vram", key: "VRAM Total Memory (B)", series: "rocm_memory_total", except: withGTT},
	{flags: "--showmeminfo vram", key: "VRAM Total Memory (B)", series: "rocm_gpu_vram_bytes kind=vram state=total"},
	{flags: "--showmeminfo vram", key: "VRAM Total Used Memory (B)", series: "rocm_memory_used", except: withGTT},
	{flags: "--showmeminfo vram", key: "VRAM Total Used Memory (B)", series: "rocm_gpu_vram_bytes kind=vram state=used"},
	{flags: "--showmeminfo vis_vram", key: "VIS_VRAM Total Memory (B)", series: "rocm_gpu_vram_bytes kind=vis_vram state=total"},
	{flags: "--showmeminfo vis_vram", key: "VIS_VRAM Total Used Memory (B)", series: "rocm_gpu_vram_bytes kind=vis_vram state=used"},
	{flags: "--showmeminfo gtt", key: "GTT Total Memory (B)", series: "rocm_gpu_vram_bytes kind=gtt state=total"},
	{flags: "--showmeminfo gtt", key: "GTT Total Used Memory (B)", series: "rocm_gpu_vram_bytes kind=gtt state=used"},

	{flags: "--showclocks", key: "sclk clock speed:", pick: mhz, series: "rocm_gpu_clock_hertz clock=gfx", times: 1e6},
	{flags: "--showclocks", key: "mclk clock speed:", pick: mhz, series: "rocm_gpu_clock_hertz clock=mem", times: 1e6},
	{flags: "--showclocks", key: "socclk clock speed:", pick: mhz, series: "rocm_gpu_clock_hertz clock=soc", times: 1e6},
	{flags: "--showclocks", key: "fclk clock speed:", pick: mhz, series: "rocm_gpu_clock_hertz clock=fabric", times: 1e6},
	{flags: "--showclocks", key: "pcie clock level", pick: speed, series: "rocm_pcie_link_speed_transfers_per_second", times: 1e9},
	{flags: "--showclocks", key: "pcie clock level", pick: lanes, series: "rocm_pcie_link_lanes"},
	{flags: "--showreplaycount", key: "PCIe Replay Count", series: "rocm_pcie_replays_total"},

	{flags: pages, key: "reserved", series: "rocm_gpu_bad_pages state=retired"},
	{flags: ras, key: "UMC ue", series: "rocm_gpu_ras_errors_total block=umc severity=ue"},
	{flags: ras, key: "UMC ce", series: "rocm_gpu_ras_errors_total block=umc severity=ce"},
	{flags: ras, key: "SDMA ue", series: "rocm_gpu_ras_errors_total block=sdma severity=ue"},
	{flags: ras, key: "SDMA ce", series: "rocm_gpu_ras_errors_total block=sdma severity=ce"},
	{flags: ras, key: "GFX ue", series: "rocm_gpu_ras_errors_total block=gfx severity=ue"},
	{flags: ras, key: "GFX ce", series: "rocm_gpu_ras_errors_total block=gfx severity=ce"},
	{flags: ras, key: "MMHUB ue", series: "rocm_gpu_ras_errors_total block=mmhub severity=ue"},
	{flags: ras, key: "MMHUB ce", series: "rocm_gpu_ras_errors_total block=mmhub severity=ce"},
	{flags: ras, key: "PCIE_BIF ue", series: "rocm_gpu_ras_errors_total block=pcie_bif severity=ue"},
	{flags: ras, key: "PCIE_BIF ce", series: "rocm_gpu_ras_errors_total block=pcie_bif severity=ce"},
	{flags: ras, key: "XGMI_WAFL ue", series: "rocm_gpu_ras_errors_total block=xgmi_wafl severity=ue"},
	{flags: ras, key: "XGMI_WAFL ce", series: "rocm_gpu_ras_errors_total block=xgmi_wafl severity=ce"},
}

// These flags have no JSON.
const ras, pages = "--showrasinfo", "--showpagesinfo"

var withGTT = map[string]string{"APU": "programs get GTT too; rocm-smi has the carve-out alone"}

var notEnergy = map[string]string{
	"RX 7900 XT": "its table has all ones, which means that there is no energy counter; rocm-smi takes them for a value",
}

// theirsAlone are values of rocm-smi without a series, and the reason.
var theirsAlone = map[string]string{
	"Card vendor":         "a PCI id, or a text of pci.ids",
	"Card SKU":            "a part of the VBIOS version",
	"sclk clock level:":   "a place in the list of levels",
	"mclk clock level:":   "a place in the list of levels",
	"fclk clock level:":   "a place in the list of levels",
	"socclk clock level:": "a place in the list of levels",
}

// firmware returns a version in the way of the driver: 00.78.126.00 is 0x004e7e00.
func firmware(theirs string) string {
	var b []byte
	for part := range strings.SplitSeq(theirs, ".") {
		n := byte(0)
		for _, c := range part {
			n = n*10 + byte(c-'0')
		}
		b = append(b, n)
	}
	return "0x" + hex.EncodeToString(b)
}
