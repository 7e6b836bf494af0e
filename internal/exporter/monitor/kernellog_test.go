package monitor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

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
		if address, number, ok := xidOf(record); ok {
			require.True(t, pci.IsFull(address))
			require.GreaterOrEqual(t, number, 0)
		}
	})
}
