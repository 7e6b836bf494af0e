// Package pci reads PCI addresses, and the names of slots, which are addresses with the
// number of a partition. It accesses no hardware.
package pci

import (
	"cmp"
	"path"
	"strconv"
	"strings"
)

// Address holds a PCI address as numbers, for order and comparison.
type Address struct {
	Domain                uint32
	Bus, Device, Function uint8
}

// Parse reads "0000:03:00.0" or, in domain 0, "03:00.0", in hex of either case. Domains may
// have up to eight digits, for example behind Intel VMD.
func Parse(s string) (a Address, ok bool) {
	domain, rest, _ := strings.Cut(Full(s), ":")
	bus, rest, _ := strings.Cut(rest, ":")
	device, function, _ := strings.Cut(rest, ".")
	if len(domain) < 4 || len(domain) > 8 || len(bus) != 2 || len(device) != 2 || len(function) != 1 {
		return a, false
	}
	var v [4]uint64
	for i, part := range []string{domain, bus, device, function} {
		n, err := strconv.ParseUint(part, 16, 32)
		if err != nil {
			return a, false
		}
		v[i] = n
	}
	a = Address{uint32(v[0]), uint8(v[1]), uint8(v[2]), uint8(v[3])}
	return a, a.Device < 32 && a.Function < 8
}

// Full returns an address with its domain, which is 0000 if it is left out.
func Full(s string) string {
	if strings.Count(s, ":") == 1 {
		return "0000:" + s
	}
	return s
}

// IsAddress reports whether Parse reads s.
func IsAddress(s string) bool {
	_, ok := Parse(s)
	return ok
}

// IsFull reports whether s is an address as the kernel writes it: with its domain and in
// lower case. It can name a file.
func IsFull(s string) bool { return IsAddress(s) && Full(s) == s && strings.ToLower(s) == s }

// Compare orders addresses.
func Compare(x, y string) int {
	a, _ := Parse(x)
	b, _ := Parse(y)
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Device, b.Device),
		cmp.Compare(a.Function, b.Function), cmp.Compare(x, y))
}

// OfSlot returns the address in the name of a slot: 0000:03:00.0 is a GPU, and
// 0000:03:00.0-1 its partition 1. It returns "" for other names.
func OfSlot(slot string) string {
	address, partition, divided := strings.Cut(slot, "-")
	if divided && (partition == "" || len(partition) > 4 || strings.Trim(partition, "0123456789") != "") ||
		!IsFull(address) {
		return ""
	}
	return address
}

// Ports returns the addresses of the ports above a device, the nearest first, by the device's
// directory in sysfs: /sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0.
func Ports(dir string) (ports []string) {
	for dir = path.Dir(dir); IsFull(path.Base(dir)); dir = path.Dir(dir) {
		ports = append(ports, path.Base(dir))
	}
	return ports
}
