package exporter

import "github.com/prometheus/client_golang/prometheus"

// metric is one of the values that are read from a GPU.
type metric int

const (
	temperature metric = iota
	utilization
	memoryUtilization
	memoryUsed
	memoryTotal
	power
)

// The names have no unit suffix, against Prometheus' own rules: dashboards and
// alerts for AMD GPUs know them so.
var perGPU = []string{"gpu", "uuid", "pci_bus_id"}

// descriptions are the metrics with their help texts.
type descriptions struct {
	values map[metric]*prometheus.Desc
	info   *prometheus.Desc
	up     *prometheus.Desc
	build  *prometheus.Desc
}

func newDescriptions() descriptions {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	gpu := func(name, help string) *prometheus.Desc { return gauge(name, help, perGPU...) }
	return descriptions{
		values: map[metric]*prometheus.Desc{
			temperature: gpu("rocm_gpu_temperature",
				"Temperature in degrees Celsius: at the die's edge, or its junction where there is no edge sensor."),
			utilization: gpu("rocm_gpu_utilization",
				"Busy time of the graphics and compute engine in percent."),
			memoryUtilization: gpu("rocm_memory_utilization",
				"Busy time of the memory controller in percent."),
			memoryUsed: gpu("rocm_memory_used",
				"Video memory in use in bytes."),
			memoryTotal: gpu("rocm_memory_total",
				"Video memory in bytes; on an APU the carve-out."),
			power: gpu("rocm_power_usage",
				"Power draw in watts, averaged where the GPU does so; on an APU with the processor's share."),
		},
		info: gauge("rocm_gpu_info",
			"Always 1; the labels tell what the GPU is. An empty one is not known.",
			append(perGPU[:len(perGPU):len(perGPU)], "name", "gfx", "vbios", "serial", "driver_version", "partition")...),
		up: gpu("rocm_exporter_device_up",
			"1 when the GPU answered in time or was left asleep, 0 when its files fail or hang."),
		build: gauge("rocm_exporter_build_info",
			"Always 1; the labels tell the exporter's version.", "version", "goversion"),
	}
}

// newReadErrors counts for the life of the process.
func newReadErrors() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rocm_exporter_read_errors_total",
		Help: "Files that had no usable value, by error: an errno, or format, range or timeout.",
	}, []string{"gpu", "file", "errno"})
}
