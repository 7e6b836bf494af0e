package gpu

import (
	"fmt"
	"strings"
)

// String is the inventory as a text for people: a paragraph a GPU, then those
// left out with the reason, then /dev/kfd.
func (i Inventory) String() string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", key, fmt.Sprintf(format, args...))
	}
	for _, v := range []Vendor{AMD, NVIDIA} {
		for n, g := range i.GPUsOf(v) {
			fmt.Fprintf(&b, "%s GPU %d: %s\n", v.Label(), n, g.Model)
			line("pci", "%s %04x:%02x class %06x driver %s", g.PCI, g.DeviceID, g.Revision, g.Class, g.Driver)
			line("render", "%s %s", g.Render.Path, g.Render.Number())
			if g.Card != nil {
				line("card", "%s %s", g.Card.Path, g.Card.Number())
			}
			if g.UniqueID != "" {
				line("id", "GPU-%s", g.UniqueID)
			}
			if g.KFDNode >= 0 {
				line("kfd", "node %d, %s, partition %d", g.KFDNode, g.GFX, g.Partition)
			}
			line("sysfs", "%s", g.Sysfs)
			line("drm", "%s", g.DRM)
		}
	}
	for _, l := range i.Unusable {
		fmt.Fprintf(&b, "left out: %s %s (%s)\n", l.PCI, l.Model, l.Reason)
		line("because", "%s", l.Detail)
	}
	fmt.Fprintf(&b, "kfd: %s\n", i.KFD.Text())
	return b.String()
}
