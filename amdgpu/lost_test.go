package amdgpu

import (
	"maps"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestOnlyNewFatalErrorsAreReported(t *testing.T) {
	state := func(n string) string { return "current seqno: 9\nFatal Error: count:" + n + ", last_seqno:1\n" }
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "ras/event_state": state("4")})
	r, now := readerOf(t, root)
	require.Zero(t, r.Read().Fatal, "what was before the program is no news")
	hosttest.Put(t, root, dev+"/ras/event_state", state("5"))
	r.Poll()
	require.Equal(t, *now, r.Read().Fatal)
}

func TestReadingWithOnlyRejectedFilesIsRefused(t *testing.T) {
	r, _ := readerOf(t, exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n"}))
	for _, err := range []error{unix.EPERM, unix.EBUSY, unix.EIO} {
		r.begin()
		require.False(t, r.isRefused())
		r.noteError(err)
		require.Equal(t, err != unix.EIO, r.isRefused(), err)
		r.answered = true
		require.False(t, r.isRefused(), "the driver answered")
	}
}

// sensors are a GPU's files, of which the PCI core's answer whatever the GPU does.
func sensors(more map[string]string) map[string]string {
	files := map[string]string{"power/runtime_status": "active\n", "gpu_busy_percent": "5\n", "mem_info_vram_total": "1024\n", "mem_info_vram_used": "7\n",
		"hwmon/hwmon1/name": "amdgpu\n", "hwmon/hwmon1/temp1_label": "edge\n", "hwmon/hwmon1/temp1_input": "45000\n",
		"hwmon/hwmon1/fan1_input": "900\n", "current_link_width": "16\n", "pcie_replay_count": "0\n", "ras/umc_err_count": "ue: 0\nce: 37\n"}
	maps.Copy(files, more)
	return files
}

// lostAfter reads a GPU, changes it, and returns what is lost after each of four readings.
func lostAfter(t *testing.T, files map[string]string, change func(host.Root)) (all [][]string) {
	root := exportertest.Put(t, files)
	r, now := readerOf(t, root)
	require.Empty(t, r.Read().Lost)
	change(root)
	r.Reopen()
	for range 4 {
		*now = now.Add(3 * time.Second)
		all = append(all, r.Read().Lost)
	}
	return all
}

// fails makes files directories: to read one is an error that no healthy GPU gives.
func fails(t *testing.T, r host.Root, names ...string) {
	for _, name := range names {
		require.NoError(t, os.Remove(r.Path(dev+"/"+name)))
	}
	trap(t, r, names...)
}

func TestFailingFilesThatAnsweredBeforeAreLost(t *testing.T) {
	all := []string{"gpu_busy_percent", "mem_info_vram_total", "mem_info_vram_used", "hwmon/hwmon1/temp1_input"}
	names := []string{"gpu_busy_percent", "mem_info_vram_total", "mem_info_vram_used", "temp1_input"}
	got := lostAfter(t, sensors(nil), func(r host.Root) { fails(t, r, all...) })
	require.Equal(t, [][]string{nil, nil, names, names}, got, "other files answer, and are no sign of health")

	got = lostAfter(t, sensors(nil), func(r host.Root) { fails(t, r, "gpu_busy_percent") })
	require.Equal(t, []string{"gpu_busy_percent"}, got[3])

	got = lostAfter(t, sensors(nil), func(r host.Root) { require.NoError(t, os.Remove(r.Path(dev+"/mem_info_vram_used"))) })
	require.Equal(t, []string{"mem_info_vram_used"}, got[3], "a file that vanishes is a sign too")

	got = lostAfter(t, sensors(nil), func(r host.Root) { require.NoError(t, os.RemoveAll(r.Path(dev+"/hwmon"))) })
	require.Equal(t, []string{"temp1_input"}, got[3])
}

func TestMissingHardwareIsNotLost(t *testing.T) {
	for why, change := range map[string]func(host.Root){
		"nothing changed": func(host.Root) {},
		"it fell asleep": func(r host.Root) {
			hosttest.Put(t, r, dev+"/power/runtime_status", "suspended\n")
			fails(t, r, "gpu_busy_percent")
		},
		"a fan is no measure": func(r host.Root) { fails(t, r, "hwmon/hwmon1/fan1_input") },
		"its driver was bound again": func(r host.Root) {
			require.NoError(t, os.Rename(r.Path(dev+"/hwmon/hwmon1"), r.Path(dev+"/hwmon/hwmon2")))
			require.NoError(t, os.Remove(r.Path(dev+"/gpu_busy_percent")))
		},
		"it is divided otherwise": func(r host.Root) {
			hosttest.Put(t, r, dev+"/current_compute_partition", "CPX\n")
			require.NoError(t, os.Remove(r.Path(dev+"/gpu_busy_percent")))
		},
	} {
		got := lostAfter(t, sensors(map[string]string{"current_compute_partition": "SPX\n"}), change)
		require.Equal(t, make([][]string, 4), got, why)
	}
	require.Empty(t, lostAfter(t, map[string]string{"power/runtime_status": "active\n", "current_link_width": "16\n"}, func(host.Root) {})[3], "it never had one")
}

func TestRejectedFilesAreNotLost(t *testing.T) {
	for err, lost := range map[error][]string{unix.EPERM: nil, unix.EBUSY: nil, unix.EOPNOTSUPP: nil, unix.ENODATA: nil,
		unix.EIO: {"gpu_metrics"}, unix.ETIME: {"gpu_metrics"}, unix.ENOENT: {"gpu_metrics"}} {
		var a answers
		now := hosttest.Now
		look := func(err error) []string {
			a.begin()
			a.note("gpu_metrics", err)
			now = now.Add(3 * time.Second)
			return a.end(now, func() string { return "-" })
		}
		require.Empty(t, look(nil))
		require.Empty(t, look(err))
		require.Empty(t, look(err))
		require.Equal(t, lost, look(err), err)
		require.Empty(t, look(nil), "it is back")
	}
}

// An exporter that was started after the fault knows no better past.
func TestGPUWithOnlyFailingFilesIsLost(t *testing.T) {
	root := exportertest.Put(t, sensors(nil))
	fails(t, root, "gpu_busy_percent", "mem_info_vram_total", "mem_info_vram_used", "hwmon/hwmon1/temp1_input")
	r, now := readerOf(t, root)
	for range 2 {
		require.Empty(t, r.Read().Lost)
		*now = now.Add(3 * time.Second)
	}
	require.Len(t, r.Read().Lost, 4)
}
