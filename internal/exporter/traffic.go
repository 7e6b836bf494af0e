package exporter

import (
	"context"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/sysfile"
)

// trafficEvery is how often pcie_bw is read. Each reading sleeps for a second in
// the kernel and starts the counters of the link anew.
const trafficEvery = 30 * time.Second

// traffic is what pcie_bw said last, by PCI address.
type traffic struct {
	mu   sync.Mutex
	last map[string]bandwidth
	busy map[string]bool
}

type bandwidth struct{ rx, tx float64 } // bytes/s

// add adds a GPU's series, and NVIDIA's names for them where these are wanted.
// The first partition has them.
func (t *traffic) add(out []expo.Sample, l labels, d Device, dcgm bool) []expo.Sample {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, ok := t.last[d.PCI]
	if !ok || d.Partition > 0 {
		return out
	}
	out = append(out, expo.Sample{Series: l.series(pcieRx), Value: b.rx}, expo.Sample{Series: l.series(pcieTx), Value: b.tx})
	if dcgm {
		extra := l.dcgm(d.Name)
		out = append(out, expo.Sample{Series: l.series(dcgmRx, extra...), Value: b.rx / 1000},
			expo.Sample{Series: l.series(dcgmTx, extra...), Value: b.tx / 1000})
	}
	return out
}

// begin takes the GPU, unless a reading of it is still outstanding.
func (t *traffic) begin(pci string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last, t.busy = map[string]bandwidth{}, map[string]bool{}
	}
	if t.busy[pci] {
		return false
	}
	t.busy[pci] = true
	return true
}

// end keeps the result; without one there are no series.
func (t *traffic) end(pci string, b bandwidth, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, pci)
	if delete(t.last, pci); ok {
		t.last[pci] = b
	}
}

// readTraffic reads pcie_bw of every GPU that has it, apart from any scrape. A
// GPU whose scrape hangs is left alone.
func (c *Collector) readTraffic() {
	found := c.known.Load()
	if found == nil {
		return
	}
	var all sync.WaitGroup
	for _, d := range found.devices {
		if d.Partition > 0 || c.reads.late(key(d)) || !c.traffic.begin(d.PCI) {
			continue
		}
		all.Go(func() {
			b, ok := c.trafficOf(d)
			c.traffic.end(d.PCI, b, ok)
		})
	}
	all.Wait()
}

func (c *Collector) trafficOf(d Device) (bandwidth, bool) {
	status, err := sysfile.ReadOnce(c.root.Path(path.Join(d.Dir, "power/runtime_status")))
	if err == nil && strings.HasPrefix(sysfile.Clean(status), "suspend") {
		return bandwidth{}, false
	}
	b, err := sysfile.ReadOnce(c.root.Path(path.Join(d.Dir, "pcie_bw")))
	if err != nil {
		if !sysfile.Absent(err) {
			c.count(strconv.Itoa(d.Index), Failure{File: "pcie_bw", Errno: sysfile.ErrnoName(err)})
		}
		return bandwidth{}, false
	}
	text := sysfile.Clean(b)
	if text == "" {
		return bandwidth{}, false
	}
	rx, tx, ok := parseTraffic(text)
	if !ok {
		c.count(strconv.Itoa(d.Index), Failure{File: "pcie_bw", Errno: "format"})
	}
	return bandwidth{rx, tx}, ok
}

// parseTraffic reads "received sent size": messages in a second, and the most
// that one can carry in bytes (amdgpu_get_pcie_bw). Messages may be smaller, so
// the product is an upper estimate.
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

// Poll reads error counters and limits of all known GPUs. One that hangs is not
// waited for.
func (c *Collector) Poll() {
	c.mu.Lock()
	cards := make([]*card, 0, len(c.cards))
	for _, card := range c.cards {
		cards = append(cards, card)
	}
	c.mu.Unlock()
	var open []*flight[[]Failure]
	for _, card := range cards {
		open = append(open, c.polls.start(key(card.device), nil, func() []Failure {
			card.hold()
			defer card.release()
			failures := card.poll()
			c.countAll(card.device, failures)
			return failures
		}))
	}
	for i, f := range open {
		if c.deadline != nil {
			f.wait(c.deadline(cards[i].device.Dir))
		} else {
			f.wait(time.After(Deadline))
		}
	}
}

// Watch runs the timers until the context is done.
func (c *Collector) Watch(ctx context.Context) {
	ras := time.NewTicker(c.options.RASInterval)
	defer ras.Stop()
	var bandwidth <-chan time.Time
	if c.options.PCIeBandwidth {
		t := time.NewTicker(trafficEvery)
		defer t.Stop()
		bandwidth = t.C
		c.search(time.After(Deadline))
		go c.readTraffic()
	}
	var looks <-chan time.Time
	if c.users != nil && c.options.UsageReport == "" {
		t := time.NewTicker(c.options.UsageInterval)
		defer t.Stop()
		looks = t.C
		c.search(time.After(Deadline))
		go c.readUsers(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
			go c.readUsers(ctx)
		case <-ras.C:
			c.Poll()
		case <-bandwidth:
			go c.readTraffic()
		}
	}
}
