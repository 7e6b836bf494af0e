// Package amdgpu reads one AMD GPU from amdgpu's files in sysfs into a State, with fields
// that are known or unknown. It exports no metrics, serves no HTTP and judges no health.
//
// It must not disturb the machine. It writes nothing and never wakes a suspended GPU. It
// never reads xgmi_error, because reading clears it, or pcie_bw, because each read sleeps
// for a second in the kernel. It keeps files open between readings. A value that the
// hardware lacks is unknown: never 0 and never a firmware's 65535.
package amdgpu

import (
	"path"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

func readIdentity(root host.Root, at func(string), d reading.Device) reading.Identity {
	read := func(name string) string {
		at(name)
		b, err := sysfile.ReadOnce(root.Path(path.Join(d.Dir, name)))
		if err != nil {
			return ""
		}
		return sysfile.Clean(b)
	}
	serial := read("serial_number")
	id := reading.Identity{UUID: reading.UUID(d, serial), Serial: serial, VBIOS: read("vbios_version"),
		ProductNumber: read("product_number"), NUMANode: read("numa_node")}
	if id.NUMANode == "-1" {
		id.NUMANode = ""
	}
	return id
}
