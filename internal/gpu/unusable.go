package gpu

import (
	"fmt"
	"strings"
)

// Reason classifies why a GPU is unusable.
type Reason string

// The reasons, from the outside in. The first that applies is given.
const (
	BMC              Reason = "bmc"                // display of a server's management controller
	WSL              Reason = "wsl"                // GPU of Windows in WSL2
	OtherVendor      Reason = "other-vendor"       // display of a vendor without usable GPUs
	NoDriver         Reason = "no-driver"          // no driver is bound
	VFIO             Reason = "vfio"               // reserved for a virtual machine
	OtherDriver      Reason = "other-driver"       // bound to a driver that cannot compute
	NoRenderNode     Reason = "no-render-node"     // its driver created none
	NoCompute        Reason = "no-compute"         // KFD does not list it
	Hangs            Reason = "hangs"              // reading it does not end, and no previous reading exists
	SysfsUnreadable  Reason = "sysfs-unreadable"   // sysfs lacks its number or identity
	NotPassedThrough Reason = "not-passed-through" // the render node is not in this /dev
	NotADevice       Reason = "not-a-device"       // another file has the node's name
	WrongNumber      Reason = "wrong-number"       // the device number differs from the one in sysfs
	Unreadable       Reason = "unreadable"         // even root of this container may not open the node
)

// Reasons lists all reasons.
var Reasons = []Reason{BMC, WSL, OtherVendor, NoDriver, VFIO, OtherDriver, NoRenderNode, NoCompute, Hangs,
	SysfsUnreadable, NotPassedThrough, NotADevice, WrongNumber, Unreadable}

// Text returns the reason as one line for people.
func (r Reason) Text() string {
	switch r {
	case BMC:
		return "the display of a management controller, not a GPU for computing"
	case WSL:
		return "a GPU of Windows: WSL2 has it at /dev/dxg, which is not supported here; see " +
			"docs/how-to/windows-worker.md"
	case OtherVendor:
		labels := make([]string, len(vendors))
		for i, v := range vendors {
			labels[i] = v.Label()
		}
		return "neither " + strings.Join(labels, " nor ")
	case NoDriver:
		return "no driver is bound to it"
	case VFIO:
		return "set aside for a virtual machine"
	case OtherDriver:
		return "its driver cannot compute"
	case NoRenderNode:
		return "its driver made no render node"
	case NoCompute:
		return "it can draw but not compute: the kernel's KFD does not support it, as all GPUs of GCN 1; for a " +
			"newer one see: sudo dmesg | grep kfd"
	case Hangs:
		return "it hangs: the kernel does not come back from reading it"
	case SysfsUnreadable:
		return "sysfs does not describe it"
	case NotPassedThrough:
		return "the host has it and did not pass it through to this machine"
	case NotADevice:
		return "its node is not a character device"
	case WrongNumber:
		return "its node has another device's number"
	case Unreadable:
		return "its node belongs to a user outside this container"
	}
	return string(r)
}

func newUnusable(f function, why Reason, format string, args ...any) GPU {
	l := GPU{Slot: Slot{PCI: f.addr, Vendor: vendorOf(f.vendor)}, DeviceID: f.device, Reason: why,
		Detail: fmt.Sprintf(format, args...)}
	switch {
	case f.hangs:
		l.Model = l.Vendor.Label() + " GPU"
	case l.Vendor == "":
		l.Model = fmt.Sprintf("display %04x:%04x", f.vendor, f.device)
	}
	return l
}
