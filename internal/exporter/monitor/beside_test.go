package monitor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestPCIeTrafficIsReadSeparatelyFromSnapshots(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "pcie_bw": "1000 500 256\n"})
	m := newMonitor(r, one, Options{})
	m.readTraffic() // no one has looked for GPUs yet
	require.Nil(t, m.gpu(t).Traffic)
	m.readTraffic()
	require.Equal(t, &Traffic{Received: 256000, Sent: 128000}, m.gpu(t).Traffic)
	hosttest.Put(t, r, dev+"/power/runtime_status", "suspended\n")
	m.readTraffic()
	require.Nil(t, m.gpu(t).Traffic)

	hosttest.Put(t, r, dev+"/power/runtime_status", "active\n")
	hosttest.Put(t, r, dev+"/pcie_bw", "a lot\n")
	m.readTraffic()
	s := m.Snapshot()
	require.Nil(t, s.GPUs[0].Traffic)
	require.Equal(t, map[string]float64{"0 pcie_bw format": 1}, errorsOf(s))
}

// A reading of pcie_bw sleeps in the kernel, and one of a GPU that hangs may stay there.
func TestPCIeTrafficOfAHungGPUIsNotRead(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "pcie_bw": "1000 500 256\n"})
	m := newMonitor(r, one, Options{})
	reached, end := exportertest.FIFO(t, r, dev+"/gpu_busy_percent")
	m.deadline = only(dev, reached)
	require.True(t, m.gpu(t).Silent)
	m.readTraffic()
	require.Nil(t, m.gpu(t).Traffic)
	end("5\n")
}

func TestDriverMatch(t *testing.T) {
	const modules = "/lib/modules/6.8.0-45-generic/modules.dep"
	for name, c := range map[string]struct {
		version, dep string
		want         Module
	}{
		"the kernel's own":                      {"", "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst: kernel/x.ko.zst\n", Module{"kernel", "kernel", true}},
		"AMD's, built and in use":               {"6.10.5\n", "kernel/a.ko:\nupdates/dkms/amdgpu.ko.zst:\n", Module{"dkms", "dkms", true}},
		"AMD's is built, the kernel's in use":   {"", "updates/dkms/amdgpu.ko.zst:\n", Module{"kernel", "dkms", false}},
		"AMD's in use, gone from the disk":      {"6.10.5\n", "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko:\n", Module{"dkms", "kernel", false}},
		"a container without modules":           {"", "", Module{}},
		"a list without the driver is no list":  {"", "kernel/drivers/amdgpu_other.ko:\n", Module{}},
		"a path that leaves the tree is no one": {"", "../../amdgpu.ko:\n", Module{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"})
			hosttest.Put(t, r, "/proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
			hosttest.Put(t, r, "/sys/module/amdgpu/srcversion", "ABC\n")
			if c.version != "" {
				hosttest.Put(t, r, "/sys/module/amdgpu/version", c.version)
			}
			if c.dep != "" {
				hosttest.Put(t, r, modules, c.dep)
			}
			s := newMonitor(r, one, Options{}).Snapshot()
			require.Equal(t, c.want, s.Module)
			driver := "6.8.0-45-generic"
			if c.version != "" {
				driver = strings.TrimSpace(c.version)
			}
			require.Equal(t, driver, s.GPUs[0].Driver)
		})
	}
}

// All that is looked at by itself is there soon after the start, and again as time goes on.
func TestWatchScansOnItsTimer(t *testing.T) {
	r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "pcie_bw": "1000 500 256\n", "ras/umc_err_count": "ue: 0\nce: 0\n"})
	inBubble(t, func() {
		m := newMonitor(r, one, Options{PCIeBandwidth: true, Usage: true, UsageInterval: time.Minute})
		stop, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { m.Watch(stop); close(done) }()
		settle()
		require.Equal(t, &Traffic{Received: 256000, Sent: 128000}, m.gpu(t).Traffic)
		require.NotNil(t, m.users.scanner.Last())
		hosttest.Put(t, r, dev+"/pcie_bw", "1 1 1\n")
		hosttest.Put(t, r, dev+"/ras/umc_err_count", "ue: 1\nce: 0\n")
		time.Sleep(time.Minute + time.Second) // of the bubble's clock
		settle()
		g := m.gpu(t)
		require.Equal(t, &Traffic{Received: 1, Sent: 1}, g.Traffic)
		require.Equal(t, uint64(1), g.State.RAS.Errors.Uncorrectable)
		require.Len(t, m.histories.find(g.Slot).Activity, 6)
		cancel()
		<-done
	})
}

// Leases and processes are in files that another process writes.
func TestUnreadableReportIsCounted(t *testing.T) {
	const file = "/run/report.json"
	for name, c := range map[string]struct {
		put  func(t *testing.T, path string)
		want string
	}{
		"not yet written": {func(*testing.T, string) {}, ""},
		"damaged":         {func(t *testing.T, p string) { write(t, p, `{"gpus": [{"name"`) }, "damaged"},
		"of other types":  {func(t *testing.T, p string) { write(t, p, `{"gpus": 1, "devices": 1}`) }, "damaged"},
		"huge":            {func(t *testing.T, p string) { write(t, p, strings.Repeat(" ", maxReport+1)) }, "damaged"},
		"a directory":     {mkdir, "EISDIR"},
		"a pipe":          {mkfifo, "damaged"}, // it must not hold up a snapshot
	} {
		for _, report := range []string{"leases", "usage"} {
			t.Run(name+", "+report, func(t *testing.T) {
				r := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"})
				o := Options{Leases: file}
				if report == "usage" {
					o = Options{Usage: true, UsageInterval: time.Minute, UsageReport: file}
				}
				require.NoError(t, r.MkdirAll("/run", 0o755))
				c.put(t, r.Path(file))
				s := newMonitor(r, one, o).Snapshot()
				require.Nil(t, s.Leases)
				require.Nil(t, s.Users)
				want := map[string]float64{}
				if c.want != "" {
					want[" "+report+" "+c.want] = 1
				}
				require.Equal(t, want, errorsOf(s))
			})
		}
	}
}

func FuzzSlowTexts(f *testing.F) {
	for _, s := range []string{"1 2 3", "18446744073709551615 1 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if rx, tx, ok := parseTraffic(text); ok {
			require.True(t, rx >= 0 && tx >= 0)
		}
	})
}
