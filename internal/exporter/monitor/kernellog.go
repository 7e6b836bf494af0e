package monitor

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// kernelLog holds the last reports in the kernel's log about GPUs, by PCI address.
type kernelLog struct {
	mu   sync.Mutex
	last map[string]reading.Seen
}

// hangTexts are amdgpu's messages about a hang (amdgpu_job.c, amdgpu_device.c).
var hangTexts = [...]string{" timeout, signaled seq=", "GPU reset begin!", "GPU reset(", "GPU Recovery Failed",
	"GPU reset end with ret ="}

// find returns the reports about a GPU, the zero value if the log has none.
func (k *kernelLog) find(address string) reading.Seen {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[address]
}

// record adds one record of /dev/kmsg.
func (k *kernelLog) record(text string, now time.Time) {
	note := func(s *reading.Seen) { s.Logged = now }
	address, ok := hungDevice(text)
	if !ok {
		var number int
		if address, number, ok = xidOf(text); !ok || xids[number] == nil {
			return
		}
		note = func(s *reading.Seen) { xids[number](s, now) }
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.last = map[string]reading.Seen{}
	}
	if s, known := k.last[address]; known || len(k.last) < 1024 {
		note(&s)
		k.last[address] = s
	}
}

// hungDevice finds the GPU in "4,812,93847562,-;amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0
// timeout, signaled seq=17" (Documentation/ABI/testing/dev-kmsg). A record that a process
// wrote has another prefix and is ignored.
func hungDevice(record string) (address string, ok bool) {
	prefix, text, found := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	rest, driver := strings.CutPrefix(text, "amdgpu ")
	address, _, named := strings.Cut(rest, ": ")
	if !found || !driver || !named || !pci.IsFull(address) || !fromKernelItself(prefix) {
		return "", false
	}
	for _, t := range hangTexts {
		if strings.Contains(rest, t) {
			return address, true
		}
	}
	return "", false
}

// fromKernelItself reports whether the record's facility is 0. The facility is above the
// three bits of the level.
func fromKernelItself(prefix string) bool {
	first, _, _ := strings.Cut(prefix, ",")
	return len(first) == 1 && first[0] >= '0' && first[0] <= '7'
}

// FollowKernel reads the kernel's log until the context is done, for a program that does
// not Watch.
func (m *Monitor) FollowKernel(ctx context.Context) { m.kernel.follow(ctx, m.root, m.now) }

// follow reads new records until the context is done. Most containers may not read the log
// of their machine: then this signal is missing.
func (k *kernelLog) follow(ctx context.Context, root host.Root, now func() time.Time) {
	f, err := os.OpenFile(root.Path("/dev/kmsg"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer stop()
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		f.Close()
		return
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		f.Close()
		return
	}
	record := make([]byte, 8<<10) // more than the longest record (CONSOLE_EXT_LOG_MAX)
	for {
		n, err := f.Read(record)
		switch {
		case errors.Is(err, syscall.EPIPE): // records were lost, the next can be read
		case err != nil:
			f.Close()
			return
		default:
			k.record(string(record[:n]), now())
		}
	}
}

// xids are the errors of NVIDIA's driver that concern the GPU itself, by number
// (docs.nvidia.com/deploy/xid-errors, the catalog). Errors that a program can cause, such
// as 13, 31, 43 and 45, are left out.
var xids = map[int]func(s *reading.Seen, now time.Time){
	8:   hung,                                                  // stopped processing
	46:  hung,                                                  // stopped processing
	61:  hung,                                                  // microcontroller: breakpoint
	62:  hung,                                                  // microcontroller: halt
	109: hung,                                                  // context switch timeout
	119: hung,                                                  // GSP: a call timed out
	120: hung,                                                  // GSP: error
	79:  func(s *reading.Seen, now time.Time) { s.Lost = now }, // fell off the bus

	48:  uncorrectable,                                             // double-bit ECC error
	94:  uncorrectable,                                             // contained
	95:  uncorrectable,                                             // uncontained
	140: uncorrectable,                                             // unrecovered
	63:  func(s *reading.Seen, _ time.Time) { s.Errors.Pending++ }, // a page or row will be replaced at the next reset
	64:  func(s *reading.Seen, _ time.Time) { s.Errors.Failed++ },  // the replacement could not be recorded
}

func hung(s *reading.Seen, now time.Time) { s.Logged = now }

func uncorrectable(s *reading.Seen, _ time.Time) { s.Errors.Uncorrectable++ }

// xidOf finds GPU and number in "3,1207,93847562,-;NVRM: Xid (PCI:0000:0a:00): 79,
// pid=...". The address lacks the function, which is 0 for a GPU.
func xidOf(record string) (address string, number int, ok bool) {
	prefix, text, _ := strings.Cut(record, ";")
	rest, xid := strings.CutPrefix(text, "NVRM: Xid (PCI:")
	slot, rest, closed := strings.Cut(rest, "): ")
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 16)
	address = strings.ToLower(slot) + ".0"
	return address, int(n), xid && closed && err == nil && pci.IsFull(address) && fromKernelItself(prefix)
}
