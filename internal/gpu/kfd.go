package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

const (
	kfdPath     = "/dev/kfd"
	procDevices = "/proc/devices"
)

// KFDState is the state of /dev/kfd, the node that all ROCm programs open.
type KFDState string

// The states of /dev/kfd.
const (
	KFDAbsent     KFDState = "absent"
	KFDPresent    KFDState = "present"
	KFDWrongMajor KFDState = "wrong-major" // the node belongs to another driver, or to none
	KFDUnreadable KFDState = "unreadable"  // not a device, or even root of this container may not open it
)

// KFD describes /dev/kfd in this /dev.
type KFD struct {
	State KFDState
	Node  host.Node // zero if absent
	// WantMajor is the major of the kernel's kfd driver, 0 if it is missing or unknown. The
	// kernel assigns a new one at each boot, so a node made by hand can belong to another
	// driver.
	WantMajor uint32
	Err       error // why the node could not be read
}

// Usable reports whether ROCm programs can open /dev/kfd.
func (k KFD) Usable() bool { return k.State == KFDPresent }

// Text returns the state as one line for people.
func (k KFD) Text() string {
	switch {
	case k.State == KFDAbsent:
		return "no /dev/kfd"
	case k.State == KFDPresent:
		return "/dev/kfd is there (" + k.Node.Number() + ")"
	case k.State == KFDWrongMajor && k.WantMajor == 0:
		return "/dev/kfd is " + k.Node.Number() + ", but the kernel has no kfd driver"
	case k.State == KFDWrongMajor:
		return fmt.Sprintf("/dev/kfd is %s, but the kernel's kfd driver has major %d", k.Node.Number(), k.WantMajor)
	case k.Err != nil:
		return k.Err.Error()
	}
	return unreachableText(k.Node)
}

// Help returns the fix that makes /dev/kfd usable, "" if it is usable.
func (k KFD) Help() string {
	switch k.State {
	case KFDPresent:
		return ""
	case KFDAbsent:
		return "run: sudo modprobe amdgpu; in a container, pass /dev/kfd to it"
	case KFDWrongMajor:
		return "its number is of another boot; restart the container, or pass /dev/kfd to it again"
	}
	return "pass /dev/kfd to the container with its mode 0666, or with an owner inside it"
}

// Obstacle returns why no program of this machine can compute on a GPU, with the fix. It
// returns "" for a GPU that computes without KFD, and if nothing is known against it.
func (i Inventory) Obstacle(g GPU) string {
	switch {
	case !g.Vendor.Has(KFDNode):
		return ""
	case !i.KFD.Usable():
		return fmt.Sprintf("%s (%s)", i.KFD.Text(), i.KFD.Help())
	case g.NotInKFD:
		return "the kernel's KFD does not list it (see: sudo dmesg | grep kfd; " +
			"in a container, pass the GPU to it again)"
	}
	return ""
}

func readKFD(r files) KFD {
	n, err := r.Node(kfdPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return KFD{State: KFDAbsent}
	case errors.Is(err, host.ErrNotDevice):
		return KFD{State: KFDUnreadable, Err: err} // the error names the node
	case err != nil:
		return KFD{State: KFDUnreadable, Err: fmt.Errorf("cannot use %s: %w", kfdPath, err)}
	}
	k := KFD{State: KFDPresent, Node: n}
	if text, err := read(r, procDevices); err == nil {
		k.WantMajor, _ = charMajor(text, "kfd")
		if !n.Is(k.WantMajor, n.Minor) {
			k.State = KFDWrongMajor
			return k
		}
		if n.Any {
			k.Node.Major = k.WantMajor
		}
	}
	if !reachable(r.Root, n) {
		k.State = KFDUnreadable
	}
	return k
}

// charMajor finds a character driver's major in /proc/devices (fs/proc/devices.c): a
// "Character devices:" block of "%3d name" lines, then a block of block devices.
func charMajor(text, name string) (uint32, bool) {
	char := false
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		if f[1] == "devices:" {
			char = f[0] == "Character"
			continue
		}
		if !char || f[1] != name {
			continue
		}
		if major, err := strconv.ParseUint(f[0], 10, 12); err == nil { // majors have 12 bits
			return uint32(major), true
		}
	}
	return 0, false
}
