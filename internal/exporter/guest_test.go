package exporter

import (
	"maps"
	"os"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// guest is a virtual function of an MI300X as a virtual machine sees it: without power,
// counters of errors or limits of temperatures, its firmware hidden, and its links reported
// as down or, by later drivers, as not available (2).
func guest(t *testing.T, more map[string]string) host.Root {
	const links = 31
	files := map[string]string{
		"uevent": "DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID=1002:74B5\nPCI_SLOT_NAME=0000:03:00.0\n",
		"vendor": "0x1002\n", "device": "0x74b5\n", "class": "0x120000\n", "revision": "0x00\n",
		"unique_id": "7c1e55a90b34d2f6\n", "vbios_version": "113-M3000100-103\n", "numa_node": "-1\n",
		"gpu_busy_percent": "12\n", "mem_info_vram_used": "297181184\n", "mem_info_vram_total": "206141652992\n",
		"hwmon/hwmon1/name": "amdgpu\n", "hwmon/hwmon1/temp2_label": "junction\n", "hwmon/hwmon1/temp2_input": "41000\n",
		"hwmon/hwmon1/power1_input": "0\n", "fw_version/smc_fw_version": "0x00000000\n",
		"gpu_metrics": exportertest.Table(exportertest.Attribute{ID: links, Values: []uint64{0, 0, 2}}),
	}
	maps.Copy(files, more)
	r := exportertest.Put(t, files)
	for _, link := range []string{"/sys/class/drm/card0/device", "/sys/bus/pci/devices/" + exportertest.PCI} {
		require.NoError(t, r.MkdirAll(path.Dir(link), 0o755))
		require.NoError(t, os.Symlink("../../.."+exportertest.Dir[len("/sys"):], r.Path(link)))
	}
	return r
}

// A guest has no limits of temperatures, and its firmware counts the time under them.
func TestGuestIsJudgedByTheTimeUnderLimits(t *testing.T) {
	r := guest(t, nil)
	c := newTestCollector(r, monitor.All(r))
	for minute, want := range []health.State{health.Unknown, health.Healthy, health.Warning} {
		ticks := uint64(minute+1) * 60_000
		hosttest.Put(t, r, dev+"/gpu_metrics", exportertest.Table(exportertest.Attribute{ID: 9, Values: []uint64{ticks}},
			exportertest.Attribute{ID: 12, Values: []uint64{[]uint64{0, 0, 24_000}[minute]}}))
		c.now = func() time.Time { return hosttest.Now.Add(time.Duration(minute) * 20 * time.Second) }
		require.Equal(t, want, c.Report().GPUs[0].Health.State)
	}
}

func TestGuestIsJudgedByItsAvailableValues(t *testing.T) {
	for name, c := range map[string]struct {
		more   map[string]string
		state  health.State
		reason string
	}{
		"nothing to judge by":    {nil, health.Unknown, "no error counters, no temperature with its limit and no time under limits"},
		"a limit of temperature": {map[string]string{"hwmon/hwmon1/temp2_crit": "100000\n"}, health.Healthy, "nothing wrong with temperature and events"},
		"error counters": {map[string]string{"ras/umc_err_count": "ue: 1\nce: 0\n"}, health.Critical,
			"1 uncorrectable error"},
	} {
		t.Run(name, func(t *testing.T) {
			r := guest(t, c.more)
			s := newTestCollector(r, monitor.All(r))
			gpus := s.Report().GPUs
			require.Len(t, gpus, 1)
			require.Equal(t, "AMD Instinct MI300X VF", gpus[0].Name)
			require.Equal(t, c.state, gpus[0].Health.State)
			require.Equal(t, c.reason, gpus[0].Health.Reason)
			require.Nil(t, gpus[0].Power)
			text := scrape(t, s)
			require.Contains(t, text, "\nrocm_gpu_utilization{")
			require.NotContains(t, text, "rocm_exporter_read_errors_total", "what a guest is not told is no error")
			require.NotContains(t, text, "rocm_power_usage{")
			require.NotContains(t, text, "rocm_gpu_firmware_info{")
			require.Len(t, lines(text, "rocm_xgmi_link_up{"), 2, "a link of which nothing is told")
		})
	}
}
