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
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/signs"
)

// kernelLog holds the last reports in the kernel's log, by the PCI address that they name: of
// a GPU, of a port above it, or "".
type kernelLog struct {
	mu    sync.Mutex
	last  map[string]reading.Seen
	rings map[string][]time.Time // resets of single rings
	cards map[string]bool        // of AMD's driver, also those that are gone
}

const (
	maxAddresses  = 1024
	maxRingResets = 100 // kept for an address
	ringTime      = 24 * time.Hour
)

// addCards notes the cards of AMD's driver.
func (k *kernelLog) addCards(cards []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cards == nil {
		k.cards = map[string]bool{}
	}
	for _, address := range cards {
		k.cards[address] = true
	}
}

// find returns the reports about a device, the zero value if the log has none. Lines without
// an address belong to the only card.
func (k *kernelLog) find(d gpu.Slot, now time.Time) (all reading.Seen) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all = k.last[d.PCI]
	addresses := append([]string{d.PCI}, pci.Ports(d.Sysfs)...)
	if len(k.cards) == 1 && k.cards[d.PCI] {
		addresses = append(addresses, "")
	}
	for _, a := range addresses {
		s := k.last[a]
		all.Logged, all.Lost = latest(all.Logged, s.Logged), latest(all.Lost, s.Lost)
		all.Stuck, all.Spared = latest(all.Stuck, s.Stuck), latest(all.Spared, s.Spared)
		for _, at := range k.rings[a] {
			if now.Sub(at) < ringTime {
				all.RingResets++
			}
		}
	}
	// The line of the reset can be without the address of the line before. A reset that fails
	// has a line of the whole GPU.
	if !all.Stuck.After(latest(all.Spared, k.last[""].Spared)) {
		all.Stuck = time.Time{}
	}
	return all
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// record adds one record of /dev/kmsg.
func (k *kernelLog) record(record string, now time.Time) {
	text, ok := kernellog.Text(record)
	if !ok {
		return
	}
	if f, sign := signs.Read(text); sign {
		k.note(f.Device, func(s *reading.Seen) { k.apply(f, s, now) })
		return
	}
	if address, number, xid := xidOf(text); xid && xids[number] != nil {
		k.note(address, func(s *reading.Seen) { xids[number](s, now) })
	}
}

// apply notes the meaning of a line.
func (k *kernelLog) apply(f signs.Found, s *reading.Seen, now time.Time) {
	switch {
	case f.Sign == nil:
	case f.Meaning == signs.Stuck:
		if !reading.Recent(now, s.Stuck) {
			s.Stuck = now
		}
	case f.Meaning == signs.RingReset:
		s.Stuck, s.Spared = time.Time{}, now
		times := append(k.rings[f.Device], now)
		k.rings[f.Device] = times[max(0, len(times)-maxRingResets):]
	case f.Meaning.Hang():
		s.Stuck, s.Logged = time.Time{}, now
	case f.Meaning == signs.Lost:
		s.Lost = now
	}
}

func (k *kernelLog) note(address string, change func(s *reading.Seen)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.last, k.rings = map[string]reading.Seen{}, map[string][]time.Time{}
	}
	if s, known := k.last[address]; known || len(k.last) < maxAddresses {
		change(&s)
		k.last[address] = s
	}
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
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer stop()
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return
	}
	record := make([]byte, 8<<10) // more than the longest record (CONSOLE_EXT_LOG_MAX)
	for {
		n, err := f.Read(record)
		switch {
		case errors.Is(err, syscall.EPIPE): // records were lost, the next can be read
		case err != nil:
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

// xidOf finds GPU and number in "NVRM: Xid (PCI:0000:0a:00): 79, pid=...". The address lacks
// the function, which is 0 for a GPU.
func xidOf(text string) (address string, number int, ok bool) {
	rest, xid := strings.CutPrefix(text, "NVRM: Xid (PCI:")
	slot, rest, closed := strings.Cut(rest, "): ")
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 16)
	address = strings.ToLower(slot) + ".0"
	return address, int(n), xid && closed && err == nil && pci.IsFull(address)
}
