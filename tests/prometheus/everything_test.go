//go:build e2e

package prometheus

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Places in struct gpu_metrics_v1_7 (kgd_pp_interface.h).
const (
	tableSize           = 2208
	accumulationCounter = 40
	pptResidencyAcc     = 48
)

// busyGPU is the first GPU's folder.
const busyGPU = "/sys/devices/pci0000:08/0000:08:01.1/0000:0a:00.0/"

// everything is an MI300X at work: a fixture host whose firmware counters move,
// on a machine with the driver's module, with one file that has no number, and with a
// task that uses it.
func everything(t *testing.T) host.Root {
	t.Helper()
	r := host.Root(t.TempDir())
	require.NoError(t, os.CopyFS(string(r), os.DirFS(filepath.Join(hosttest.HostsDir(), "mi300x-cpx"))))
	put := func(path, text string) {
		require.NoError(t, r.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, r.WriteFile(path, []byte(text), 0o644))
	}
	put("/sys/module/amdgpu/initstate", "live\n")
	put("/proc/sys/kernel/osrelease", "6.14.0-32-generic\n")
	put("/lib/modules/6.14.0-32-generic/modules.dep", "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst:\n")
	put(busyGPU+"gpu_busy_percent", "much\n")
	put(leases, leaseReport(t, r))
	put(service, serviceReport(t, r))
	put("/proc/100/cgroup", "0::/garden/4f1c\n")
	put("/proc/100/fdinfo/7", "drm-driver:\tamdgpu\ndrm-pdev:\t0000:0a:00.0\ndrm-client-id:\t7\npasid:\t32771\n"+
		"drm-memory-vram:\t1024 KiB\ndrm-engine-gfx:\t2500000000 ns\n")
	require.NoError(t, os.MkdirAll(r.Path("/proc/100/fd"), 0o755))
	require.NoError(t, os.Symlink("/dev/dri/renderD128", r.Path("/proc/100/fd/7")))
	put("/sys/class/kfd/kfd/topology/nodes/2/gpu_id", "4711\n") // for renderD128
	for name, value := range map[string]string{"pasid": "32771", "vram_4711": "4096", "stats_4711/cu_occupancy": "12"} {
		put("/sys/class/kfd/kfd/proc/100/"+name, value+"\n")
	}
	move(t, r.Path(busyGPU+"gpu_metrics"))
	return r
}

// leases is the file in which exporters look for a report of leases; one host has one.
const leases = "/run/leases.json"

// leaseReport returns a report in which a task has each GPU. Its time is in the future,
// because it is written only once, and an old report is ignored.
func leaseReport(t *testing.T, r host.Root) string {
	t.Helper()
	devices, _, err := monitor.All(r)()
	require.NoError(t, err)
	require.NotEmpty(t, devices)
	since, report := time.Now().Add(-time.Hour), pool.Report{At: time.Now().Add(90 * time.Second)}
	for _, d := range devices {
		report.GPUs = append(report.GPUs, pool.ReportedLease{Name: d.Address(), Lease: pool.Lease{Held: true, Holder: pool.Holder{Container: "4f1c", Since: &since}}})
	}
	data, err := json.Marshal(report)
	require.NoError(t, err)
	return string(data)
}

// service is the file in which exporters look for quarantined GPUs; one host has one.
const service = "/run/service.json"

// serviceReport has the last GPU quarantined.
func serviceReport(t *testing.T, r host.Root) string {
	t.Helper()
	devices, _, err := monitor.All(r)()
	require.NoError(t, err)
	l := quarantine.Look{At: time.Now(), Policy: quarantine.Auto}
	for _, d := range devices {
		l.GPUs = append(l.GPUs, quarantine.Reading{Slot: gpu.Slot{PCI: d.Address(), Index: d.Index}, Up: true, State: health.Healthy})
	}
	rec, err := quarantine.Decide(quarantine.Record{}, l).Quarantine(l.GPUs[len(l.GPUs)-1].PCI, "swap the riser", l.At)
	require.NoError(t, err)
	data, err := json.Marshal(rec)
	require.NoError(t, err)
	return string(data)
}

// move makes a gpu_metrics file whose counters go on until the test ends.
func move(t *testing.T, path string) {
	t.Helper()
	le := binary.LittleEndian
	table := bytes.Repeat([]byte{0xff}, tableSize) // which means that there is no value
	le.PutUint16(table, tableSize)
	table[2], table[3] = 1, 7
	le.PutUint32(table[accumulationCounter:], 1000)
	le.PutUint32(table[pptResidencyAcc:], 0)
	require.NoError(t, os.WriteFile(path, table, 0o644))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	end, ended := make(chan struct{}), make(chan error)
	go func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-end:
				tick.Stop()
				ended <- f.Close()
				return
			case <-tick.C:
				for at, step := range map[int]uint32{accumulationCounter: 100, pptResidencyAcc: 40} {
					le.PutUint32(table[at:], le.Uint32(table[at:])+step)
					f.WriteAt(table[at:at+4], int64(at)) // a failed one shows as a query without data
				}
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		require.NoError(t, <-ended)
	})
}
