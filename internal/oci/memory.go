package oci

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxNodes bounds the numbers of NUMA nodes. Linux for amd64 has at most 1,024.
const maxNodes = 1024

// nodeMask has one bit for each NUMA node.
type nodeMask [maxNodes / 64]uint64

// preferMemory gives the container main memory of its GPUs' NUMA nodes first. This process
// takes the policy, and runc and the container inherit it: it needs no version of runc. A
// machine that refuses it, or has no nodes, runs the container without.
func (w *wrapper) preferMemory(s *settings, h heldLease) {
	if s.Leases == nil || s.Leases.Memory != NearMemory {
		return
	}
	var mask nodeMask
	count := 0
	for _, gpu := range h.gpus {
		card, _, _ := strings.Cut(gpu, "-") // a partition is at its card
		data, _, err := readNoFollow(w.devices + "/" + card + "/numa_node")
		n, invalid := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || invalid != nil || n < 0 || n >= maxNodes {
			return // the memory of one GPU alone would be far from another
		}
		if mask[n/64]&(1<<(n%64)) == 0 {
			mask[n/64] |= 1 << (n % 64)
			count++
		}
	}
	if count > 0 {
		w.setMemory(mask, count)
	}
}

// Modes of set_mempolicy (include/uapi/linux/mempolicy.h).
const (
	mpolPreferred     = 1 // one node
	mpolPreferredMany = 5 // several, from Linux 5.15
)

// setMemory sets the policy of the thread that becomes runc.
func setMemory(mask nodeMask, count int) {
	mode := uintptr(mpolPreferred)
	if count > 1 {
		mode = mpolPreferredMany
	}
	runtime.LockOSThread()
	_, _, _ = unix.RawSyscall(unix.SYS_SET_MEMPOLICY, mode, uintptr(unsafe.Pointer(&mask)), maxNodes+1)
}
