package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"concourse-ci-machine/internal/base/statefile"
	"concourse-ci-machine/internal/base/units"
	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/pool/quarantine"
)

// DetectGPUs writes one line for each vendor with GPUs in this unit. Other programs parse
// these lines, so their words are fixed.
func (c *Actions) DetectGPUs(w io.Writer) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	text := ""
	for _, v := range gpu.Vendors() {
		if len(inv.GPUsOf(v)) > 0 {
			text += v.Label() + " GPU detected\n"
		}
	}
	if text == "" {
		text = "No GPU detected\n"
	}
	_, err = io.WriteString(w, text)
	return err
}

// ListedGPU describes one GPU in the JSON list. Numbers are those of the machine.
type ListedGPU struct {
	Index    int      `json:"index"` // the number that gpu-device-ids takes
	Vendor   string   `json:"vendor"`
	Name     string   `json:"name"`
	PCI      string   `json:"pci"`
	UniqueID string   `json:"unique_id,omitempty"` // GPU-<16 hex digits>
	GFX      string   `json:"gfx,omitempty"`
	Nodes    []string `json:"nodes"`

	Partition int    `json:"partition"` // its number; 0 for a whole GPU
	Driver    string `json:"driver"`    // amdgpu, nvidia, nouveau

	// Service is in_service, withheld or proving; "" without a record.
	Service     quarantine.State `json:"service,omitempty"`
	quarantined string           // the reason; "" in service

	// The exporter's readings; null is unknown.
	UUID          *string  `json:"uuid"` // the unique id, or the GPU's name in metrics
	VBIOS         *string  `json:"vbios"`
	DriverVersion *string  `json:"driver_version"`
	Partitions    *int     `json:"partitions"` // that the GPU is divided into
	SensorsOf     *int     `json:"sensors_of"` // index of another partition with this GPU's readings
	Temperature   *float64 `json:"temperature_celsius"`
	Power         *float64 `json:"power_watts"`
	MemoryUsed    *float64 `json:"memory_used_bytes"`
	MemoryTotal   *float64 `json:"memory_total_bytes"`
	Utilization   *float64 `json:"utilization_ratio"` // 0 to 1
}

// describeGPU joins a discovered GPU with the exporter's readings. s is nil without
// readings.
func describeGPU(index int, g gpu.GPU, s *api.Status) ListedGPU {
	text := func(t string) *string {
		if t == "" {
			return nil
		}
		return &t
	}
	l := ListedGPU{
		Index: index, Vendor: string(g.Vendor), Name: g.Name, PCI: g.PCI, UniqueID: g.ID(), GFX: g.GFX,
		Nodes:     nodePaths(g),
		Partition: g.Partition, Driver: g.Driver, UUID: text(g.ID())}
	if s == nil {
		return l
	}
	l.UUID, l.VBIOS, l.DriverVersion, l.SensorsOf = text(cmp.Or(g.ID(), s.UUID)), text(s.VBIOS), text(s.Driver),
		s.SensorsOf
	if s.Partitions > 0 {
		l.Partitions = &s.Partitions
	}
	l.Temperature, l.Power, l.MemoryUsed, l.MemoryTotal, l.Utilization = s.Temperature, s.Power, s.MemoryUsed,
		s.MemoryTotal, s.Activity
	return l
}

// readingsText formats the exporter's readings.
func (l ListedGPU) readingsText() string {
	var parts []string
	add := func(format string, v *float64, per float64) {
		if v != nil {
			parts = append(parts, fmt.Sprintf(format, *v/per))
		}
	}
	add("%.0f °C", l.Temperature, 1)
	add("%.0f W", l.Power, 1)
	add("%.1f GiB in use", l.MemoryUsed, 1<<30)
	add("%.1f GiB in all", l.MemoryTotal, 1<<30)
	add("%.0f %% busy", l.Utilization, .01)
	if l.VBIOS != nil {
		parts = append(parts, "VBIOS "+*l.VBIOS)
	}
	if l.DriverVersion != nil {
		parts = append(parts, l.Driver+" "+*l.DriverVersion)
	}
	return strings.Join(parts, ", ")
}

// ListGPUs writes the unit's GPUs, the unusable GPUs, and the state of /dev/kfd. Readings
// come only from the exporter: to read a GPU that hangs would hang the hook.
func (c *Actions) ListGPUs(ctx context.Context, w io.Writer, asJSON bool) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	reported, why := map[string]*api.Status{}, ""
	if len(inv.GPUs) > 0 {
		r, err := gpuhealth.Fetch(ctx, c.Host, c.ExporterURL)
		if err != nil {
			why = err.Error()
		}
		for i := range r.GPUs {
			reported[r.GPUs[i].Slot().Address()] = &r.GPUs[i]
		}
	}
	service, err := quarantine.RecordFile.Read(c.Host.Root)
	if err != nil && !errors.Is(err, statefile.ErrDamaged) {
		return err
	}
	all := []ListedGPU{}
	for _, v := range gpu.Vendors() {
		for i, g := range inv.GPUsOf(v) {
			slot := g.Address()
			one := describeGPU(i, g, reported[slot])
			if s := service.Find(slot); s != nil {
				one.Service = s.State
				if s.State != quarantine.InService {
					one.quarantined = s.Text()
				}
			}
			all = append(all, one)
		}
	}
	if !asJSON {
		_, err := io.WriteString(w, listText(all, inv))
		return err
	}
	return term.JSON(w, struct {
		GPUs []ListedGPU    `json:"gpus"`
		Left []gpu.Unusable `json:"not_counted"`
		KFD  string         `json:"kfd"`
		Why  string         `json:"no_readings,omitempty"` // why there are no readings
	}{all, append([]gpu.Unusable{}, inv.Unusable...), inv.KFD.Text(), why})
}

func listText(all []ListedGPU, inv gpu.Inventory) string {
	var b strings.Builder
	divided := map[string]int{}
	for _, l := range all {
		divided[l.PCI]++
	}
	vendor := ""
	for _, l := range all {
		if l.Vendor != vendor {
			vendor = l.Vendor
			v := gpu.Vendor(vendor)
			fmt.Fprintf(&b, "Found %s\n", units.Count(len(inv.GPUsOf(v)), v.Label()+" GPU device"))
		}
		place := ""
		if divided[l.PCI] > 1 || l.Partition > 0 {
			place = fmt.Sprintf("partition %d", l.Partition)
		}
		fmt.Fprintf(&b, "  %d  %s", l.Index, l.Name)
		for _, part := range []string{l.GFX, l.PCI, place, l.UniqueID} {
			if part != "" {
				fmt.Fprintf(&b, "  %s", part)
			}
		}
		fmt.Fprintf(&b, "\n     %s\n", strings.Join(l.Nodes, " "))
		if readings := l.readingsText(); readings != "" {
			fmt.Fprintf(&b, "     %s\n", readings)
		}
		if l.quarantined != "" {
			fmt.Fprintf(&b, "     %s\n", l.quarantined)
		}
	}
	if b.Len() == 0 {
		b.WriteString("No GPU detected\n")
	}
	for _, l := range inv.Unusable {
		fmt.Fprintf(&b, "not counted: %s %s: %s\n", l.PCI, l.Name, l.Detail)
	}
	fmt.Fprintf(&b, "%s\n", inv.KFD.Text())
	return b.String()
}

func nodePaths(g gpu.GPU) []string {
	var paths []string
	if g.Card != nil {
		paths = append(paths, g.Card.Path)
	}
	return append(paths, g.Render.Path)
}
