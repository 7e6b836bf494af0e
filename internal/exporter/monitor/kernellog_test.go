package monitor

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const port = "0000:00:01.1"

const (
	drivers = "/sys/bus/pci/drivers/amdgpu/"
	other   = "0000:43:00.0"
)

func bind(t *testing.T, r host.Root, address string) {
	hosttest.Put(t, r, drivers+address+"/uevent", "")
}

// behind is a source of a GPU behind a port, and alone of it beside another GPU.
func behind() ([]gpu.Slot, []reading.Compute, error) {
	found, _, err := one()
	found[0].Sysfs = "/sys/devices/pci0000:00/" + port + "/" + exportertest.PCI
	return found, nil, err
}

func withOther() ([]gpu.Slot, []reading.Compute, error) {
	found, _, err := behind()
	d := gpu.Slot{Vendor: gpu.AMD, Index: 1, PCI: other, Sysfs: "/sys/devices/pci0000:40/" + other}
	return append(found, d), nil, err
}

// Each text alone, at the time of the line and after the time in which a ring is reset.
func TestKernelLinesAreSignalsOfTheirGPU(t *testing.T) {
	const of, drm = "amdgpu " + exportertest.PCI + ": ", "[drm:x [amdgpu]] *ERROR* "
	hung, lost := []string{reading.SignalKernel}, []string{reading.SignalLost}
	for name, c := range map[string]struct {
		lines     []string
		others    bool // the machine has another GPU
		hidden    bool // the container's host has another GPU
		now, then []string
		rings     int
	}{
		"another GPU's":                   {lines: []string{"amdgpu 0000:43:00.0: GPU reset begin!"}},
		"another driver's":                {lines: []string{"nouveau " + exportertest.PCI + ": GPU reset begin!"}},
		"MES":                             {lines: []string{of + "MES failed to respond to msg=REMOVE_QUEUE"}, now: hung, then: hung},
		"no address, one GPU":             {lines: []string{drm + "MES failed to response msg=3"}, now: hung, then: hung},
		"no address, several GPUs":        {lines: []string{drm + "MES failed to response msg=3"}, others: true},
		"no address, several of the host": {lines: []string{drm + "MES failed to response msg=3"}, hidden: true},
		"preemption":                      {lines: []string{"amdgpu: qcm fence wait loop timeout expired"}, then: hung},
		"a queue reset after it":          {lines: []string{of + "qcm fence wait loop timeout expired", of + "queue id 0x1 at pasid 0x8005 is reset"}, rings: 1},
		// Linux 6.12 names the GPU only in the first line.
		"a queue reset without address":  {lines: []string{of + "qcm fence wait loop timeout expired", "amdgpu: queue id 0x1 at pasid 0x8005 is reset"}, rings: 1},
		"the same, with several GPUs":    {lines: []string{of + "qcm fence wait loop timeout expired", "amdgpu: queue id 0x1 at pasid 0x8005 is reset"}, others: true},
		"a ring without a reset":         {lines: []string{of + "amdgpu: ring gfx_0.0.0 timeout, signaled seq=17, emitted seq=19"}, then: hung},
		"a ring reset":                   {lines: []string{of + "ring gfx timeout, signaled seq=1", of + "Starting gfx ring reset", of + "Ring gfx reset succeeded"}, rings: 1},
		"a ring reset that failed":       {lines: []string{of + "ring gfx timeout, signaled seq=1", of + "Starting gfx ring reset", of + "Ring gfx reset failed"}, now: hung, then: hung},
		"a whole reset":                  {lines: []string{of + "amdgpu: GPU reset begin!. Source:  1", of + "amdgpu: GPU reset(2) succeeded!"}, now: hung, then: hung},
		"off the bus":                    {lines: []string{of + "device lost from bus!"}, now: lost, then: lost},
		"the slot above":                 {lines: []string{"pcieport " + port + ": pciehp: Slot(0): Link Down"}, others: true, now: lost, then: lost},
		"another slot":                   {lines: []string{"pcieport 0000:40:01.1: pciehp: Slot(0): Link Down"}},
		"a page fault, memory and links": {lines: []string{of + "[gfxhub] page fault (src_id:0", of + "2 uncorrectable hardware errors detected in umc block", "pcieport " + port + ": PCIe Bus Error: severity=Corrected"}},
	} {
		source := behind
		if c.others {
			source = withOther
		}
		m := newMonitor(exportertest.Put(t, nil), source, Options{})
		hosttest.Put(t, m.root, "/sys/devices/pci0000:00/"+port+"/"+exportertest.PCI+"/gpu_busy_percent", "5\n")
		bind(t, m.root, exportertest.PCI)
		if c.others || c.hidden {
			bind(t, m.root, other)
		}
		for _, line := range c.lines {
			m.kernel.record("12,813,93847563,-;"+line+"\n", hosttest.Now) // a process wrote it
			m.kernel.record("4,813,93847563,-;"+line+"\n SUBSYSTEM=pci\n", hosttest.Now)
		}
		require.Equal(t, c.now, m.Snapshot().GPUs[0].State.Hangs.Signals, name)
		m.now = func() time.Time { return hosttest.Now.Add(3 * time.Second) }
		hangs := m.Snapshot().GPUs[0].State.Hangs
		require.Equal(t, c.then, hangs.Signals, name)
		require.Equal(t, c.rings, hangs.RingResets, name)
		m.now = func() time.Time { return hosttest.Now.Add(6 * time.Minute) }
		require.Empty(t, m.Snapshot().GPUs[0].State.Hangs.Signals, name)
		m.now = func() time.Time { return hosttest.Now.Add(25 * time.Hour) }
		require.Zero(t, m.Snapshot().GPUs[0].State.Hangs.RingResets, name)
	}
}

// A card that left the bus has no files, and the driver still logs lines about it.
func TestLinesAboutACardThatIsGoneAreNotOfTheLastOne(t *testing.T) {
	source := withOther
	m := newMonitor(exportertest.Put(t, nil), func() ([]gpu.Slot, []reading.Compute, error) { return source() }, Options{})
	hosttest.Put(t, m.root, "/sys/devices/pci0000:00/"+port+"/"+exportertest.PCI+"/gpu_busy_percent", "5\n")
	bind(t, m.root, exportertest.PCI)
	bind(t, m.root, other)
	m.Snapshot()
	source = behind
	require.NoError(t, os.RemoveAll(m.root.Path(drivers+other)))
	m.refresh.Store(true)
	require.Len(t, m.Snapshot().GPUs, 1)
	m.kernel.record("4,813,93847563,-;[drm:x [amdgpu]] *ERROR* MES failed to response msg=3\n", hosttest.Now)
	require.Empty(t, m.gpu(t).State.Hangs.Signals)
}

func xidRecord(address, rest string) string {
	return "3,1207,93847562,-;NVRM: Xid (PCI:" + address + "): " + rest + "\n"
}

// The texts are of several releases of the driver.
func TestXidsAreSignalsAndErrors(t *testing.T) {
	for name, of := range map[string]struct {
		records []string
		signals []string
		reason  string // "" is a GPU of which nothing is known
	}{
		"fell off the bus": {[]string{xidRecord("0000:0a:00", "79, pid=1122, GPU has fallen off the bus.")}, []string{reading.SignalLost}, "hangs or is in reset (lost)"},
		"GSP":              {[]string{xidRecord("0000:0a:00", "119, pid=1834, name=python3, Timeout after 45s of waiting for RPC response from GPU0 GSP!")}, []string{reading.SignalKernel}, "hangs or is in reset (kernel_log)"},
		"stopped":          {[]string{xidRecord("0000:0a:00", "8, Channel 00000010")}, []string{reading.SignalKernel}, "hangs or is in reset (kernel_log)"},
		"two at once":      {[]string{xidRecord("0000:0a:00", "62, 0000(0000)"), xidRecord("0000:0a:00", "79, x")}, []string{reading.SignalKernel, reading.SignalLost}, "hangs or is in reset (kernel_log, lost)"},
		"errors":           {[]string{xidRecord("0000:0a:00", "48, pid=1, An uncorrectable double bit error"), xidRecord("0000:0a:00", "94, Contained")}, nil, "2 uncorrectable errors"},
		"remapped":         {[]string{xidRecord("0000:0a:00", "63, pid=1896, Row Remapper: New row marked for remapping")}, nil, "1 bad memory page"},
		"not remapped":     {[]string{xidRecord("0000:0a:00", "64, Row Remapper: failure")}, nil, "1 bad memory page"},

		"a program's faults": {[]string{xidRecord("0000:0a:00", "13, Graphics Exception"), xidRecord("0000:0a:00", "31, pid=7, MMU Fault"), xidRecord("0000:0a:00", "43, x"), xidRecord("0000:0a:00", "45, x")}, nil, ""},
		"another GPU":        {[]string{xidRecord("0000:0b:00", "79, x")}, nil, ""},
		"no address":         {[]string{xidRecord("../../etc", "79, x"), xidRecord("", "79"), xidRecord("0000:0a:00", ""), xidRecord("0000:0a:00", "-79, x")}, nil, ""},
		"a process wrote it": {[]string{"12,1207,93847562,-;NVRM: Xid (PCI:0000:0a:00): 79, x\n"}, nil, ""},
		"quoted":             {[]string{"3,1207,93847562,-;said: NVRM: Xid (PCI:0000:0a:00): 79, x\n"}, nil, ""},
	} {
		m := newMonitor(hosttest.Host(t, "nvidia-only"), nil, Options{})
		m.source = Of(m.root, gpu.NVIDIA)
		for _, record := range of.records {
			m.kernel.record(record, hosttest.Now)
		}
		g := m.gpu(t)
		require.Equal(t, of.signals, g.State.Hangs.Signals, name)
		if of.reason == "" {
			of.reason = "no error counters, no temperature with its limit and no time under limits"
		}
		require.Equal(t, of.reason, strings.TrimSuffix(g.Health.Reason(), "; hangs and resets in 24 h: 1"), name)
		m.now = func() time.Time { return hosttest.Now.Add(6 * time.Minute) }
		require.Empty(t, m.gpu(t).State.Hangs.Signals, name)
	}
}

// nvidia-smi counts the same errors.
func TestXidsAreNotCountedTwice(t *testing.T) {
	r := hosttest.Host(t, "nvidia-only")
	hosttest.Put(t, r, "/run/n", `{"at":"2026-01-02T03:04:05Z","gpus":[{"pci":"0000:0a:00.0","values":{
		"ecc.errors.uncorrected.volatile.total":1,"remapped_rows.pending":0,"remapped_rows.failure":0}}]}`)
	m := newMonitor(r, Of(r, gpu.NVIDIA), Options{NVIDIA: "/run/n"})
	for range 3 {
		m.kernel.record(xidRecord("0000:0a:00", "48, x"), hosttest.Now)
		m.kernel.record(xidRecord("0000:0a:00", "63, x"), hosttest.Now)
	}
	require.Equal(t, "1 uncorrectable error", m.gpu(t).Health.Reason())
}

func FuzzXid(f *testing.F) {
	f.Add(xidRecord("0000:0a:00", "79, pid=1122, GPU has fallen off the bus."))
	f.Fuzz(func(t *testing.T, record string) {
		text, _ := kernellog.Text(record)
		if address, number, ok := xidOf(text); ok {
			require.True(t, pci.IsFull(address))
			require.GreaterOrEqual(t, number, 0)
		}
	})
}
