package actions

import (
	"fmt"
	"io"
	"strings"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/term"
)

// DetectGPUs writes one line for each vendor whose GPUs this unit has, in the
// fixed words that other programs look for.
func (c *Actions) DetectGPUs(w io.Writer) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	text := ""
	for _, v := range gpu.Vendors() {
		if len(inv.Of(v)) > 0 {
			text += v.Label() + " GPU detected\n"
		}
	}
	if text == "" {
		text = "No GPU detected\n"
	}
	_, err = io.WriteString(w, text)
	return err
}

// ListedGPU is one GPU in the JSON list; numbers are those of the machine.
type ListedGPU struct {
	Index    int      `json:"index"` // the number that gpu-device-ids takes
	Vendor   string   `json:"vendor"`
	Name     string   `json:"name"`
	PCI      string   `json:"pci"`
	UniqueID string   `json:"unique_id,omitempty"` // GPU-<16 hex digits>
	GFX      string   `json:"gfx,omitempty"`
	Nodes    []string `json:"nodes"`
}

// UncountedGPU is a GPU of the host that is not this unit's.
type UncountedGPU struct {
	PCI    string `json:"pci"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// ListGPUs prints the unit's GPUs, those that do not count, and /dev/kfd.
func (c *Actions) ListGPUs(w io.Writer, asJSON bool) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	if !asJSON {
		return listText(w, inv)
	}
	out := struct {
		GPUs []ListedGPU    `json:"gpus"`
		Left []UncountedGPU `json:"not_counted"`
		KFD  string         `json:"kfd"`
	}{GPUs: []ListedGPU{}, Left: []UncountedGPU{}, KFD: inv.KFD.Text()}
	for _, v := range gpu.Vendors() {
		for i, g := range inv.Of(v) {
			out.GPUs = append(out.GPUs, ListedGPU{Index: i, Vendor: string(v), Name: g.Name, PCI: g.PCI,
				UniqueID: uuid(g), GFX: g.GFX, Nodes: nodePaths(g)})
		}
	}
	for _, l := range inv.Left {
		out.Left = append(out.Left, UncountedGPU{l.PCI, l.Name, string(l.Reason), l.Detail})
	}
	return term.JSON(w, out)
}

func listText(w io.Writer, inv gpu.Inventory) error {
	var b strings.Builder
	for _, v := range gpu.Vendors() {
		of := inv.Of(v)
		if len(of) == 0 {
			continue
		}
		s := "s"
		if len(of) == 1 {
			s = ""
		}
		fmt.Fprintf(&b, "Found %d %s GPU device%s\n", len(of), v.Label(), s)
		for i, g := range of {
			fmt.Fprintf(&b, "  %d  %s", i, g.Name)
			for _, part := range []string{g.GFX, g.PCI, uuid(g)} {
				if part != "" {
					fmt.Fprintf(&b, "  %s", part)
				}
			}
			fmt.Fprintf(&b, "\n     %s\n", strings.Join(nodePaths(g), " "))
		}
	}
	if b.Len() == 0 {
		b.WriteString("No GPU detected\n")
	}
	for _, l := range inv.Left {
		fmt.Fprintf(&b, "not counted: %s %s: %s\n", l.PCI, l.Name, l.Detail)
	}
	fmt.Fprintf(&b, "%s\n", inv.KFD.Text())
	_, err := io.WriteString(w, b.String())
	return err
}

func uuid(g gpu.GPU) string {
	if g.UniqueID == "" {
		return ""
	}
	return "GPU-" + g.UniqueID
}

func nodePaths(g gpu.GPU) []string {
	var paths []string
	if g.Card != nil {
		paths = append(paths, g.Card.Path)
	}
	return append(paths, g.Render.Path)
}
