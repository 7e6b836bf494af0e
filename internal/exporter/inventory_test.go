package exporter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInventory(t *testing.T) {
	files := sensors("edge", 40, 100)
	files["fw_version/smc_fw_version"], files["fw_version/ta_ras_fw_version"] = "0x00544f00\n", "0x00000000\n"
	files["fw_version/odd"] = "0x1\n"
	files["mem_info_vram_vendor"], files["power_dpm_force_performance_level"] = "hynix\n", "manual\n"
	files["aer_dev_correctable"] = "RxErr 2\nBadTLP 1\nTOTAL_ERR_COR 3\n"
	files["aer_dev_nonfatal"], files["aer_dev_fatal"] = "TOTAL_ERR_NONFATAL 0\n", "nothing of the kind\n"
	text := scrape(t, newTestCollector(put(t, files), one))
	text = common.ReplaceAllString(text, "")
	for _, line := range []string{
		`rocm_gpu_firmware_info{component="smc",model="",version="0x00544f00"} 1`,
		`rocm_gpu_memory_info{,vendor="hynix"} 1`,
		`rocm_gpu_performance_level_info{,level="manual"} 1`,
		`rocm_pcie_aer_errors_total{,severity="correctable"} 3`,
		`rocm_pcie_aer_errors_total{,severity="nonfatal"} 0`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.NotContains(t, text, "ta_ras", "a component that is not loaded has no version")
	require.NotContains(t, text, `severity="fatal"`)
	require.Empty(t, series(text, "rocm_exporter_read_errors_total{"))
}

func FuzzAERTotal(f *testing.F) {
	f.Add("RxErr 2\nTOTAL_ERR_COR 3\n")
	f.Add("TOTAL_ERR_FATAL 18446744073709551615")
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := aerTotal(text); ok {
			require.GreaterOrEqual(t, n, 0.0)
		}
	})
}
