package actions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
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

// listedGPU describes one GPU in the JSON list: its state, of which little is known without
// readings, and its nodes.
type listedGPU struct {
	api.Status
	Module string   `json:"driver"` // amdgpu, nvidia, nouveau
	Nodes  []string `json:"nodes"`
	Notes  []string `json:"notes,omitempty"` // limits of its use

	quarantined string // the reason; "" in service
}

// listGPUs joins the GPUs of a machine with a report, which may lack some or all of them.
func (c *Actions) listGPUs(inv gpu.Inventory, r api.Report) []listedGPU {
	known, records := map[string]api.Status{}, gpuhealth.ReadRecords(c.Host.Root)
	for _, s := range withoutPage(r.GPUs) {
		known[s.Slot().Address()] = s
	}
	all := []listedGPU{}
	for _, v := range gpu.Vendors() {
		for _, g := range inv.GPUsOf(v) {
			s, read := known[g.Address()]
			if s.Index = g.Index; !read {
				s = api.Status{Index: g.Index, Vendor: string(v), Name: g.Model, UUID: g.ID(), PCI: g.PCI, GFX: g.GFX,
					Partition: g.Partition, Health: api.Health{State: health.Unknown}}
			}
			one, record := listedGPU{Status: s, Module: g.Driver, Nodes: nodePaths(g), Notes: c.notes(inv, g)},
				records.Of(g.Slot, c.Host.Now())
			if one.View = record.View(); record.Service != nil {
				one.quarantined = record.Service.Text()
			}
			all = append(all, one)
		}
	}
	return all
}

// notes returns why tasks do not get a GPU, or cannot compute on it, although it works.
func (c *Actions) notes(inv gpu.Inventory, g gpu.GPU) (notes []string) {
	if g.Unsupported != "" {
		notes = append(notes, g.Unsupported)
	}
	if !g.BesideCard {
		return notes
	}
	facts, err := model.Load(c.Host.Root)
	if err == nil && facts.Unit == "" {
		return append(notes, fmt.Sprintf("%s; containers get it only by its name, such as %s=%d", gpu.BesideCardText,
			g.Vendor.Traits().Kind, g.Index))
	}
	all := inv.GPUsOf(g.Vendor)
	cfg, _ := facts.Options()
	if named, _ := gpu.Select(all, cfg.GPU.DeviceIDs); slices.Contains(named, g) {
		return notes
	}
	indexes := "0"
	for i := range all[1:] {
		indexes += fmt.Sprintf(",%d", i+1)
	}
	return append(notes, fmt.Sprintf("%s; tasks get it only if gpu-device-ids names it: %s", gpu.BesideCardText,
		c.Commands().Of(facts.Unit).SetOption("gpu-device-ids="+indexes)))
}

// readingsText formats the readings without those of the table.
func (l listedGPU) readingsText() string {
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
	if l.VBIOS != "" {
		parts = append(parts, "VBIOS "+l.VBIOS)
	}
	if l.Driver != "" {
		parts = append(parts, l.Module+" "+l.Driver)
	}
	return strings.Join(parts, ", ")
}

// report returns the state of the GPUs as their owner recorded it. Without a current record
// another process reads the GPUs once, because a GPU that hangs would block this process.
// Then once is why the record is missing.
func (c *Actions) report(ctx context.Context) (r api.Report, once string, err error) {
	r, missing := gpuhealth.Current(c.Host.Root, role.GPUReport, c.Host.Now())
	if missing == nil {
		return r, "", nil
	}
	if c.ReadReport == nil {
		r = gpuhealth.Read(c.Host.Root)
	} else if r, err = c.ReadReport(ctx); err != nil {
		return r, "", fmt.Errorf("%w, and %w", missing, err)
	}
	gpuhealth.AddRecords(c.Host.Root, r.GPUs, c.Host.Now())
	return r, missing.Error(), nil
}

// ListGPUs writes the unit's GPUs, the unusable GPUs, and the state of /dev/kfd.
func (c *Actions) ListGPUs(ctx context.Context, w io.Writer, f term.Format) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	var r api.Report
	var once, none string
	if len(inv.GPUs) > 0 {
		if r, once, err = c.report(ctx); err != nil {
			none = err.Error()
		}
	}
	all := c.listGPUs(inv, r)
	if !f.JSON {
		_, err := io.WriteString(w, listText(f, all, inv))
		return err
	}
	return term.JSON(w, struct {
		GPUs []listedGPU `json:"gpus"`
		Left []gpu.GPU   `json:"not_counted"`
		KFD  string      `json:"kfd"`
		Once string      `json:"read_once,omitempty"`   // why the owner's record is missing
		None string      `json:"no_readings,omitempty"` // why all readings are missing
	}{all, append([]gpu.GPU{}, inv.Unusable...), inv.KFD.Text(), once, none})
}

// listText returns a table for each vendor. Each GPU has further lines below its row.
func listText(f term.Format, all []listedGPU, inv gpu.Inventory) string {
	var b strings.Builder
	divided := map[string]int{}
	for _, l := range all {
		divided[l.PCI]++
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
			rows = append(rows, l.row(divided[l.PCI] > 1))
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
		fmt.Fprintf(&b, "not counted: %s %s: %s\n", l.PCI, l.Model, whyUnusable(f.Commands, l))
	}
	fmt.Fprintf(&b, "%s\n", inv.KFD.Text())
	return b.String()
}

// whyUnusable returns the reason of an unusable GPU, with the command that explains a hang.
func whyUnusable(c wellknown.Commands, l gpu.GPU) string {
	if l.Reason == gpu.Hangs {
		return l.Detail + "; see " + c.Explain(2)
	}
	return l.Detail
}

// row returns the GPU's row of the table.
func (l listedGPU) row(divided bool) []term.Cell {
	part, load := "", "-"
	if divided || l.Partition > 0 {
		part = fmt.Sprint(l.Partition)
	}
	if l.Activity != nil {
		load = fmt.Sprintf("%.0f %%", *l.Activity*100)
	}
	row := cells(fmt.Sprintf("%3d", l.Index), l.Name, l.GFX, l.PCI, part, "", load)
	row[len(row)-2] = term.Cell{Text: string(l.Health.State), Colour: term.StateColour(l.Health.State)}
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
func (l listedGPU) below() string {
	lines := []string{strings.TrimPrefix(l.Slot().ID()+"  "+strings.Join(l.Nodes, " "), "  ")}
	lines = append(lines, commandline.Wrap(l.readingsText(), commandline.Width-len(margin))...)
	lines = append(lines, commandline.Wrap(l.MemoryTaken, commandline.Width-len(margin))...)
	for _, note := range l.Notes {
		lines = append(lines, commandline.Wrap(note, commandline.Width-len(margin))...)
	}
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
