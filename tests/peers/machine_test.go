//go:build e2e

package peers

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// machines have the GPUs of the fixture hosts, and the files that only rocm-smi needs or
// that the fixture lacks. Levels have the clocks of the fixture's table.
var machines = map[string]struct {
	root  func(testing.TB) host.Root
	gpus  int
	files map[string]string
}{
	"RX 7900 XT": {fixture("amd"), 1, map[string]string{
		"pp_dpm_socclk": "0: 480Mhz\n1: 1190Mhz *\n", "pp_dpm_pcie": "0: 2.5GT/s, x8 619Mhz\n1: 16.0GT/s, x16 619Mhz *\n",
		"hwmon/*/pwm1": "94", "hwmon/*/pwm1_max": "255", "mem_info_vram_vendor": "samsung", "power_dpm_force_performance_level": "auto",
		"fw_version/smc_fw_version": "0x004e7e00"}},
	"MI210": {fixture("mi210x4"), 4, map[string]string{
		"pp_dpm_sclk": "0: 500Mhz\n1: 1700Mhz *\n", "pp_dpm_mclk": "0: 400Mhz\n1: 1600Mhz *\n", "pp_dpm_socclk": "0: 1090Mhz *\n",
		"serial_number": "692231000131", "mem_info_vram_vendor": "hynix", "fw_version/smc_fw_version": "0x00443b00",
		"ras/features": "feature mask: 0x3fffff",
		// rocm-smi 5.2.3 aborts on the line of deferred errors that newer drivers add.
		"ras/umc_err_count": "ue: 1\nce: 12"}},
	"MI300X": {behindBMC, 2, map[string]string{
		"pp_dpm_sclk": "0: 132Mhz\n1: 2100Mhz *\n", "pp_dpm_mclk": "0: 900Mhz\n1: 1300Mhz *\n", "pcie_replay_count": "3",
		// An MI300X has no voltage, and rocm-smi 5.2.3 finds no GPU without one.
		"hwmon/*/in0_label": "vddgfx", "hwmon/*/in0_input": "790",
		"serial_number": "692247000017", "ras/features": "feature mask: 0x3fffff", "ras/gfx_err_count": "ue: 2\nce: 5"}},
	"APU": {fixture("apu-gfx1103"), 1, nil},
}

// behindBMC has card0 as well: rocm-smi looks for as many cards as there are, from 0 on.
func behindBMC(t testing.TB) host.Root {
	r := hosttest.ManyGPUs(t, 2)
	hosttest.Put(t, r, "/sys/class/drm/card0/device/vendor", "0x1a03\n")
	return r
}

func fixture(name string) func(testing.TB) host.Root {
	return func(t testing.TB) host.Root { return hosttest.Host(t, name) }
}

// Links and memory of a KFD node in the kernel's format.
const (
	link   = "type 2\nversion_major 0\nversion_minor 0\nnode_from %d\nnode_to %d\nweight 20\nmin_latency 0\nmax_latency 0\nmin_bandwidth 0\nmax_bandwidth 0\nrecommended_transfer_size 0\nflags 1\n"
	memory = "heap_type 1\nsize_in_bytes 21458059264\nflags 0\nwidth 320\nmem_clk_max 1249\n"
)

// properties are the properties of a KFD node without which rocm-smi ends with an
// exception.
var properties = strings.Fields(`cpu_cores_count simd_count mem_banks_count caches_count io_links_count
	cpu_core_id_base simd_id_base max_waves_per_simd lds_size_in_kb gds_size_in_kb num_gws wave_front_size
	array_count simd_arrays_per_engine cu_per_simd_array simd_per_cu max_slots_scratch_cu vendor_id device_id
	location_id domain drm_render_minor hive_id num_sdma_engines num_sdma_xgmi_engines num_sdma_queues_per_engine
	num_cp_queues max_engine_clk_fcompute local_mem_size fw_version capability sdma_fw_version
	unique_id num_xcc max_engine_clk_ccompute`)

// machine returns a machine of machines that rocm-smi can read.
func machine(t *testing.T, name string) host.Root {
	t.Helper()
	m := machines[name]
	r := m.root(t)
	hosttest.Put(t, r, "/sys/module/amdgpu/initstate", "live\n")
	hosttest.Put(t, r, "/sys/module/amdgpu/version", "6.10.5\n")
	nodes, err := r.Glob("/sys/class/kfd/kfd/topology/nodes/*")
	require.NoError(t, err)
	require.Greater(t, len(nodes), m.gpus)
	for i, node := range nodes {
		text, err := r.ReadText(node + "/properties")
		require.NoError(t, err)
		has := map[string]string{}
		for line := range strings.Lines(text) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
			has[k] = v
		}
		for _, k := range properties {
			if has[k] == "" {
				has[k] = "0"
			}
		}
		text = ""
		for _, k := range slices.Sorted(maps.Keys(has)) {
			text += k + " " + has[k] + "\n"
		}
		id, other := 0, len(nodes)-1
		if has["simd_count"] != "0" {
			id, other = 10_000+i, 0
		}
		for file, content := range map[string]string{"properties": text, "gpu_id": fmt.Sprintln(id), "name": "\n",
			"io_links/0/properties": fmt.Sprintf(link, i, other), "mem_banks/0/properties": memory} {
			hosttest.Put(t, r, path.Join(node, file), content)
		}
	}
	gpus, err := r.Glob("/sys/class/drm/card*/device/gpu_busy_percent")
	require.NoError(t, err)
	require.Len(t, gpus, m.gpus)
	for _, gpu := range gpus {
		for file, content := range m.files {
			name := path.Join(path.Dir(gpu), file)
			if strings.Contains(file, "*") {
				found, err := r.Glob(path.Dir(name))
				require.NoError(t, err)
				require.Len(t, found, 1)
				name = path.Join(found[0], path.Base(file))
			}
			hosttest.Put(t, r, name, content+"\n")
		}
	}
	return r
}
