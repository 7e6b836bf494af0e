package monitor

import (
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/gpu/amd/amdgpu"
)

// xids are the errors of NVIDIA's driver that say something about the GPU itself, by
// number (docs.nvidia.com/deploy/xid-errors, the catalog). Those that a program can cause,
// such as 13, 31, 43 and 45, are none of the GPU's, and not here.
var xids = map[int]func(s *amdgpu.Seen, now time.Time){
	8:   hung,                                                 // stopped processing
	46:  hung,                                                 // stopped processing
	61:  hung,                                                 // microcontroller: breakpoint
	62:  hung,                                                 // microcontroller: halt
	109: hung,                                                 // context switch timeout
	119: hung,                                                 // GSP: a call timed out
	120: hung,                                                 // GSP: error
	79:  func(s *amdgpu.Seen, now time.Time) { s.Lost = now }, // fell off the bus

	48:  uncorrectable,                                            // double-bit ECC error
	94:  uncorrectable,                                            // contained
	95:  uncorrectable,                                            // uncontained
	140: uncorrectable,                                            // unrecovered
	63:  func(s *amdgpu.Seen, _ time.Time) { s.Errors.Pending++ }, // a page or row is to be replaced at the next reset
	64:  func(s *amdgpu.Seen, _ time.Time) { s.Errors.Failed++ },  // that could not be recorded
}

func hung(s *amdgpu.Seen, now time.Time) { s.Logged = now }

func uncorrectable(s *amdgpu.Seen, _ time.Time) { s.Errors.Uncorrectable++ }

// xidOf finds GPU and number in "3,1207,93847562,-;NVRM: Xid (PCI:0000:0a:00): 79, pid=...".
// The address has no function; a GPU's is 0.
func xidOf(record string) (pci string, number int, ok bool) {
	prefix, text, _ := strings.Cut(record, ";")
	rest, xid := strings.CutPrefix(text, "NVRM: Xid (PCI:")
	slot, rest, closed := strings.Cut(rest, "): ")
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 16)
	pci = strings.ToLower(slot) + ".0"
	return pci, int(n), xid && closed && err == nil && isPCI(pci) && fromKernelItself(prefix)
}
