package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/tests/bench/exporter/floorplan"
)

// source is the floor's origin of a series.
type source struct {
	file       string // in the device's directory; "hwmon/" is completed
	offset     int    // in gpu_metrics, with size 2, 4 or 8; size 0: a text with a number
	size       int
	times, per float64
}

func text(file string, times, per float64) source { return source{file: file, times: times, per: per} }
func field(offset, size int, times, per float64) source {
	return source{file: "gpu_metrics", offset: offset, size: size, times: times, per: per}
}

// array is a field of an array, by the number in a label.
func array(labels map[string]string, name string, offset, size int, times, per float64) source {
	n, _ := strconv.Atoi(labels[name])
	return field(offset+n*size, size, times, per)
}

// constant are the families that no reading of this scrape fills: what the exporter
// read on its timer, or concluded.
func constant(name string) bool {
	for _, prefix := range []string{"rocm_exporter_", "rocm_gpu_ras_", "rocm_gpu_bad_", "rocm_gpu_can_compute", "rocm_gpu_health", "rocm_gpu_hang", "rocm_gpu_info",
		"rocm_gpu_metrics_info", "rocm_gpu_suspended", "rocm_gpu_partition_info", "rocm_gpu_power_cap", "rocm_gpu_ecc_", "rocm_gpu_clock_m",
		"rocm_gpu_temperature_crit", "rocm_gpu_temperature_emergency", "rocm_pcie_link_max"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// sourceOf finds the source of a series.
func sourceOf(name string, l map[string]string) (source, bool) {
	clock := map[string]int{"gfx": 312, "soc": 328, "vclk": 336, "dclk": 344, "mem": 352}
	sensor := map[string]source{"junction": text("hwmon/temp2_input", 1, 1000), "mem": text("hwmon/temp3_input", 1, 1000), "vrsoc": field(8, 2, 1, 1)}
	s, ok := map[string]source{
		"rocm_gpu_temperature":                      sensor["junction"],
		"rocm_gpu_temperature_celsius":              sensor[l["sensor"]],
		"rocm_gpu_utilization":                      text("gpu_busy_percent", 1, 1),
		"rocm_memory_utilization":                   text("mem_busy_percent", 1, 1),
		"rocm_memory_used":                          text("mem_info_vram_used", 1, 1),
		"rocm_memory_total":                         text("mem_info_vram_total", 1, 1),
		"rocm_gpu_vram_bytes":                       text("mem_info_"+l["kind"]+"_"+l["state"], 1, 1),
		"rocm_power_usage":                          text("hwmon/power1_input", 1, 1e6),
		"rocm_gpu_power_watts":                      text("hwmon/power1_input", 1, 1e6),
		"rocm_gpu_activity_ratio":                   text(map[string]string{"gfx": "gpu", "memory": "mem"}[l["engine"]]+"_busy_percent", 1, 100),
		"rocm_gpu_engine_busy_ratio":                array(l, "instance", map[string]int{"vcn": 16, "jpeg": 24}[l["engine"]], 2, 1, 100),
		"rocm_gpu_activity_sum_total":               field(map[string]int{"gfx": 120, "memory": 124}[l["engine"]], 4, 1, 1),
		"rocm_gpu_energy_joules_total":              field(88, 8, 1, 65536),
		"rocm_gpu_clock_hertz":                      array(l, "instance", clock[l["clock"]], 2, 1e6, 1),
		"rocm_pcie_link_lanes":                      field(112, 2, 1, 1),
		"rocm_pcie_link_speed_transfers_per_second": field(114, 2, 1e8, 1),
		"rocm_xgmi_link_lanes":                      field(116, 2, 1, 1),
		"rocm_xgmi_link_speed_transfers_per_second": field(118, 2, 1e9, 1),
		"rocm_pcie_recoveries_total":                field(144, 8, 1, 1),
		"rocm_pcie_replays_total":                   field(152, 8, 1, 1),
		"rocm_pcie_replay_rollovers_total":          field(160, 8, 1, 1),
		"rocm_pcie_naks_total":                      field(map[string]int{"sent": 168, "received": 172}[l["direction"]], 4, 1, 1),
		"rocm_xgmi_bytes_total":                     array(l, "link", map[string]int{"read": 176, "write": 240}[l["direction"]], 8, 1024, 1),
	}[name]
	return s, ok && s.file != ""
}

// writePlan makes the floor's plan of a scrape of ours.
func writePlan(file, root, body string) error {
	plan := floorplan.Plan{}
	place := map[string]int{} // of files
	for line := range strings.Lines(body) {
		head, _, ok := strings.Cut(line, "} ")
		name, labels, _ := strings.Cut(head, "{")
		if strings.HasPrefix(line, "#") || !ok || constant(name) {
			plan.Parts = append(plan.Parts, floorplan.Part{Text: line})
			continue
		}
		l := map[string]string{}
		for pair := range strings.SplitSeq(labels, ",") {
			k, v, _ := strings.Cut(pair, "=")
			l[k] = strings.Trim(v, `"`)
		}
		s, ok := sourceOf(name, l)
		if !ok {
			return fmt.Errorf("the floor has no source for %s", head)
		}
		found, err := filepath.Glob(filepath.Join(root, "sys/bus/pci/devices", l["pci_bus_id"], strings.Replace(s.file, "hwmon/", "hwmon/*/", 1)))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("the floor finds no %s of %s: %v", s.file, l["pci_bus_id"], err)
		}
		at, known := place[found[0]]
		if !known {
			at = len(plan.Files)
			place[found[0]] = at
			plan.Files = append(plan.Files, found[0])
		}
		plan.Parts = append(plan.Parts, floorplan.Part{Text: head + "} ", Value: true, File: at, Offset: s.offset, Size: s.size, Times: s.times, Per: s.per})
	}
	b, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}
