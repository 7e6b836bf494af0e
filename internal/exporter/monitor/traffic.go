package monitor

import (
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/deadline"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// trafficEvery is the time between readings of pcie_bw. Each reading sleeps for a second in
// the kernel and restarts the counters of the link.
const trafficEvery = 30 * time.Second

// Traffic holds bytes a second over PCIe: an upper estimate from message counts.
type Traffic struct{ Received, Sent float64 }

// traffic holds the last values of pcie_bw, by PCI address.
type traffic struct {
	mu   sync.Mutex
	last map[string]Traffic
	open deadline.Group[string, struct{}] // a reading of a GPU that hangs does not return
}

// find returns nil for an unknown value. Only the first partition of a GPU has a value.
func (t *traffic) find(d gpu.Slot) *Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, ok := t.last[d.PCI]
	if !ok || d.Partition > 0 {
		return nil
	}
	return &b
}

// end stores the result. Without a result the GPU has no series.
func (t *traffic) end(pci string, b Traffic, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.last, pci); !ok {
		return
	}
	if t.last == nil {
		t.last = map[string]Traffic{}
	}
	t.last[pci] = b
}

// readTraffic reads pcie_bw of every GPU that has it, separately from scrapes. It skips a
// GPU with a hanging scrape.
func (m *Monitor) readTraffic() {
	found := m.known.Load()
	if found == nil {
		return
	}
	var all sync.WaitGroup
	for _, d := range found.devices {
		if d.Partition > 0 || m.reads.Late(d.Address()) {
			continue
		}
		if _, run := m.traffic.open.Join(d.PCI, func() (none struct{}) {
			b, ok := m.trafficOf(d)
			m.traffic.end(d.PCI, b, ok)
			return none
		}); run != nil {
			all.Go(run)
		}
	}
	all.Wait()
}

func (m *Monitor) trafficOf(d gpu.Slot) (Traffic, bool) {
	status, err := sysfile.ReadOnce(m.root.Path(path.Join(d.Sysfs, "power/runtime_status")))
	if asleep := (&amdgpu.State{RuntimePower: sysfile.Clean(status)}).Suspended(); err == nil && asleep {
		return Traffic{}, false
	}
	b, err := sysfile.ReadOnce(m.root.Path(path.Join(d.Sysfs, "pcie_bw")))
	if err != nil {
		if !sysfile.Absent(err) {
			m.count(strconv.Itoa(d.Index), amdgpu.Failure{File: "pcie_bw", Errno: sysfile.ErrnoName(err)})
		}
		return Traffic{}, false
	}
	text := sysfile.Clean(b)
	if text == "" {
		return Traffic{}, false
	}
	rx, tx, ok := parseTraffic(text)
	if !ok {
		m.count(strconv.Itoa(d.Index), amdgpu.Failure{File: "pcie_bw", Errno: "format"})
	}
	return Traffic{rx, tx}, ok
}

// parseTraffic reads "received sent size": messages in a second, and the most bytes of one
// message (amdgpu_get_pcie_bw). Messages may be smaller, so the product is an upper
// estimate.
func parseTraffic(text string) (rx, tx float64, ok bool) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return 0, 0, false
	}
	var n [3]uint64
	for i, f := range fields {
		v, err := strconv.ParseUint(f, 10, 63)
		if err != nil {
			return 0, 0, false
		}
		n[i] = v
	}
	size := float64(n[2])
	return float64(n[0]) * size, float64(n[1]) * size, n[2] > 0 && n[2] <= 1<<16
}
