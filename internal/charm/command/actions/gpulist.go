package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// DetectGPUs writes one line for each vendor with GPUs in this unit, and reports whether
// there is one. Other programs parse these lines, so their words are fixed.
func (c *Actions) DetectGPUs(w io.Writer) (found bool, err error) {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return false, err
	}
	text := ""
	for _, v := range gpu.Vendors() {
		if len(inv.GPUsOf(v)) > 0 {
			text += v.Label() + " GPU detected\n"
		}
	}
	_, err = io.WriteString(w, cmp.Or(text, "No GPU detected\n"))
	return text != "", err
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

	// Service holds in_service, quarantined or on probation; "" without a record.
	Service     quarantine.State `json:"service,omitempty"`
	quarantined string           // the reason; "" in service

	// The readings of the exporter, or of a single look; null is unknown.
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
	Health        *string  `json:"health"`
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
	l.Health = text(string(api.StateOf(*s)))
	l.Temperature, l.Power, l.MemoryUsed, l.MemoryTotal, l.Utilization = s.Temperature, s.Power, s.MemoryUsed,
		s.MemoryTotal, s.Activity
	return l
}

// readingsText formats the exporter's readings without those of the table.
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
	if l.VBIOS != nil {
		parts = append(parts, "VBIOS "+*l.VBIOS)
	}
	if l.DriverVersion != nil {
		parts = append(parts, l.Driver+" "+*l.DriverVersion)
	}
	return strings.Join(parts, ", ")
}

// readings returns the report of the exporter. If the exporter does not answer, another
// process reads the GPUs once, because a GPU that hangs would block this process; once is
// then the reason. none is the reason why there are no readings at all.
func (c *Actions) readings(ctx context.Context) (reported map[string]*api.Status, once, none string) {
	reported = map[string]*api.Status{}
	r, err := gpuhealth.Fetch(ctx, c.Host, c.ExporterURL)
	if err != nil && c.ReadReport != nil {
		once = err.Error()
		if r, err = c.ReadReport(ctx); err != nil {
			once, err = "", fmt.Errorf("%s, and %w", once, err)
		}
	}
	if err != nil {
		return reported, "", err.Error()
	}
	for i := range r.GPUs {
		reported[r.GPUs[i].Slot().Address()] = &r.GPUs[i]
	}
	return reported, once, ""
}

// ListGPUs writes the unit's GPUs, the unusable GPUs, and the state of /dev/kfd.
func (c *Actions) ListGPUs(ctx context.Context, w io.Writer, f term.Format) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	var reported map[string]*api.Status
	var once, none string
	if len(inv.GPUs) > 0 {
		reported, once, none = c.readings(ctx)
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
	if !f.JSON {
		_, err := io.WriteString(w, listText(f, all, inv))
		return err
	}
	return term.JSON(w, struct {
		GPUs []ListedGPU    `json:"gpus"`
		Left []gpu.Unusable `json:"not_counted"`
		KFD  string         `json:"kfd"`
		Once string         `json:"read_once,omitempty"`   // why the exporter's readings are missing
		None string         `json:"no_readings,omitempty"` // why all readings are missing
	}{all, append([]gpu.Unusable{}, inv.Unusable...), inv.KFD.Text(), once, none})
}

// listText returns a table for each vendor. Each GPU has further lines below its row.
func listText(f term.Format, all []ListedGPU, inv gpu.Inventory) string {
	var b strings.Builder
	divided, reported := map[string]int{}, false
	for _, l := range all {
		divided[l.PCI]++
		reported = reported || l.Health != nil
	}
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Vendor == all[0].Vendor {
			n++
		}
		v := gpu.Vendor(all[0].Vendor)
		fmt.Fprintf(&b, "Found %s\n", units.Count(len(inv.GPUsOf(v)), v.Label()+" GPU device"))
		rows := [][]term.Cell{cells("GPU", "NAME", "GFX", "PCI", "PART", "HEALTH", "LOAD")}
		for _, l := range all[:n] {
			rows = append(rows, l.row(divided[l.PCI] > 1, reported))
		}
		for i, line := range f.Table(withoutEmpty(rows)) {
			fmt.Fprintf(&b, "  %s\n", line)
			if i > 0 {
				b.WriteString(all[i-1].below())
			}
		}
		all = all[n:]
	}
	if b.Len() == 0 {
		b.WriteString("No GPU detected\n")
	}
	for _, l := range inv.Unusable {
		fmt.Fprintf(&b, "not counted: %s %s: %s\n", l.PCI, l.Name, whyUnusable(f.Commands, l))
	}
	fmt.Fprintf(&b, "%s\n", inv.KFD.Text())
	return b.String()
}

// whyUnusable returns the reason of an unusable GPU, with the command that explains a hang.
func whyUnusable(c wellknown.Commands, l gpu.Unusable) string {
	if l.Reason == gpu.Hangs {
		return l.Detail + "; see " + c.Explain(2)
	}
	return l.Detail
}

// row returns the GPU's row of the table. reported is false without an exporter.
func (l ListedGPU) row(divided, reported bool) []term.Cell {
	part, state, load := "", term.Cell{}, ""
	if divided || l.Partition > 0 {
		part = fmt.Sprint(l.Partition)
	}
	if reported {
		state.Text, load = "-", "-"
	}
	if l.Health != nil {
		state = term.Cell{Text: *l.Health, Colour: term.StateColour(health.State(*l.Health))}
	}
	if l.Utilization != nil {
		load = fmt.Sprintf("%.0f %%", *l.Utilization*100)
	}
	row := cells(fmt.Sprintf("%3d", l.Index), l.Name, l.GFX, l.PCI, part, "", load)
	row[len(row)-2] = state
	return row
}

// withoutEmpty removes the columns with only a title.
func withoutEmpty(rows [][]term.Cell) [][]term.Cell {
	for column := len(rows[0]) - 1; column >= 0; column-- {
		if slices.ContainsFunc(rows[1:], func(row []term.Cell) bool { return row[column].Text != "" }) {
			continue
		}
		for i := range rows {
			rows[i] = slices.Delete(rows[i], column, column+1)
		}
	}
	return rows
}

// margin indents the lines below a row.
const margin = "       "

// below returns the lines below the GPU's row.
func (l ListedGPU) below() string {
	lines := []string{strings.TrimPrefix(l.UniqueID+"  "+strings.Join(l.Nodes, " "), "  ")}
	lines = append(lines, commandline.Wrap(l.readingsText(), commandline.Width-len(margin))...)
	lines = append(lines, l.quarantined)
	text := ""
	for _, line := range lines {
		if line != "" {
			text += margin + line + "\n"
		}
	}
	return text
}

func nodePaths(g gpu.GPU) []string {
	var paths []string
	if g.Card != nil {
		paths = append(paths, g.Card.Path)
	}
	return append(paths, g.Render.Path)
}

func cells(texts ...string) (row []term.Cell) {
	for _, text := range texts {
		row = append(row, term.Cell{Text: text})
	}
	return row
}
