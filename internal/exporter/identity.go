package exporter

import (
	"fmt"
	"path"

	"concourse-ci-machine/internal/exporter/sysfile"
	"concourse-ci-machine/internal/host"
)

// Identity is what does not change while the driver is loaded. The driver
// keeps all of it in memory: reading it does not wake the GPU.
type Identity struct {
	UUID   string // see uuid
	Serial string // "" where the board does not say
	VBIOS  string
}

func readIdentity(root host.Root, at func(string), d Device) Identity {
	read := func(name string) string {
		at(name)
		b, err := sysfile.ReadOnce(root.Path(path.Join(d.Dir, name)))
		if err != nil {
			return ""
		}
		return sysfile.Clean(b)
	}
	serial := read("serial_number")
	return Identity{UUID: uuid(d, serial), Serial: serial, VBIOS: read("vbios_version")}
}

// uuid names the card for good where it can: GPU-<unique_id> as HIP has it,
// else the board's serial number, else the PCI address, which names the slot.
// A partition without an id of its own has its parent's address and its
// number, for the serial number is that of all its siblings.
func uuid(d Device, serial string) string {
	switch {
	case d.UniqueID != "":
		return "GPU-" + d.UniqueID
	case d.Partition > 0:
		return fmt.Sprintf("%s/%d", d.PCI, d.Partition)
	case serial != "":
		return serial
	}
	return d.PCI
}

// driverVersion is the version of AMD's own driver module where that is
// loaded, else the kernel's release, whose driver then is in use.
func driverVersion(r host.Root) string {
	for _, p := range []string{"/sys/module/amdgpu/version", "/proc/sys/kernel/osrelease"} {
		if b, err := sysfile.ReadOnce(r.Path(p)); err == nil {
			if text := sysfile.Clean(b); text != "" {
				return text
			}
		}
	}
	return ""
}
