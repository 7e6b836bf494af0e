package amdgpu

import (
	"encoding/binary"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	gm "github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestPollSkipsASuspendedGPU(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "power/runtime_status": "active\n", "ras/umc_err_count": "ue: 0\nce: 3\n"})
	r, _ := readerOf(t, root)
	r.Read()
	hosttest.Put(t, root, dev+"/power/runtime_status", "suspended\n")
	hosttest.Put(t, root, dev+"/ras/umc_err_count", "ue: 0\nce: 4\n")
	require.Empty(t, r.Poll())
	s := r.Read()
	require.Equal(t, []BlockErrors{{Block: "umc", Uncorrectable: Known(0), Correctable: Known(3)}}, s.RAS.Blocks)
	require.True(t, s.Suspended())
	require.Equal(t, Number{}, s.Activity.Graphics)
}

func TestInventory(t *testing.T) {
	files := exportertest.Sensors("edge", 40, 100)
	files["fw_version/smc_fw_version"], files["fw_version/ta_ras_fw_version"] = "0x00544f00\n", "0x00000000\n"
	files["fw_version/odd"] = "0x1\n"
	files["mem_info_vram_vendor"], files["power_dpm_force_performance_level"] = "hynix\n", "manual\n"
	files["aer_dev_correctable"] = "RxErr 2\nBadTLP 1\nTOTAL_ERR_COR 3\n"
	files["aer_dev_nonfatal"], files["aer_dev_fatal"] = "TOTAL_ERR_NONFATAL 0\n", "nothing of the kind\n"
	s := first(t, files)
	// A component that is not loaded has no version.
	require.Equal(t, Inventory{Firmware: []Firmware{{Component: "smc", Version: "0x00544f00"}}, MemoryVendor: "hynix", PerformanceLevel: "manual"}, s.Inventory)
	require.Equal(t, []AERCount{{Severity: "correctable", Errors: 3}, {Severity: "nonfatal", Errors: 0}}, s.PCIe.AER)
	require.Empty(t, s.Failures)
}

// readOnce reads the GPU of a directory.
func readOnce(t *testing.T, root host.Root, dir string) State {
	now := func() time.Time { return hosttest.Now }
	r := NewReader(Device{PCI: path.Base(dir), Dir: dir, Own: dir}, Options{Root: string(root), Now: now})
	t.Cleanup(r.Close)
	return r.Read()
}

// The end of a link that counts its errors can be the port's.
func TestErrorsOfThePortsAboveAreRead(t *testing.T) {
	root, dir := host.Root(t.TempDir()), "/sys/devices/pci0000:00/0000:00:1b.4/0000:04:01.0/0000:06:00.0"
	for file, text := range map[string]string{
		dir + "/gpu_busy_percent": "5\n", dir + "/aer_dev_correctable": "TOTAL_ERR_COR 0\n",
		path.Dir(dir) + "/aer_dev_correctable":        "BadDLLP 48211\nTOTAL_ERR_COR 79572\n",
		path.Dir(path.Dir(dir)) + "/aer_dev_nonfatal": "Undefined 3\nTOTAL_ERR_NONFATAL 3\n",
	} {
		hosttest.Put(t, root, file, text)
	}
	s := readOnce(t, root, dir)
	require.Equal(t, []AERCount{{Severity: "correctable"}}, s.PCIe.AER)
	require.Equal(t, []AERCount{{Port: "0000:04:01.0", Severity: "correctable", Errors: 79572},
		{Port: "0000:00:1b.4", Severity: "nonfatal", Errors: 3}}, s.PCIe.PortAER)
}

// Without the driver's table, the present link is the one at the slot, too.
func TestLinkBehindASwitchOnTheBoardIsTheSlots(t *testing.T) {
	root, dir := host.Root(t.TempDir()), "/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0"
	for of, link := range map[string][3]string{
		dir: {"0x1002", "32.0 GT/s PCIe", "16"}, path.Dir(dir): {"0x1002", "32.0 GT/s PCIe", "16"},
		path.Dir(path.Dir(dir)):           {"0x1002", "16.0 GT/s PCIe", "8"},
		path.Dir(path.Dir(path.Dir(dir))): {"0x1022", "16.0 GT/s PCIe", "8"},
	} {
		hosttest.Put(t, root, of+"/vendor", link[0]+"\n")
		hosttest.Put(t, root, of+"/current_link_speed", link[1]+"\n")
		hosttest.Put(t, root, of+"/current_link_width", link[2]+"\n")
	}
	hosttest.Put(t, root, dir+"/gpu_busy_percent", "97\n")
	s := readOnce(t, root, dir)
	require.Equal(t, Known(16e9), s.PCIe.Speed)
	require.Equal(t, Known(8), s.PCIe.Lanes)
}

// A card's own function can show the link to a switch on its board.
func TestLinkAboveItsMaximumIsNotShown(t *testing.T) {
	root, dir := host.Root(t.TempDir()), "/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0"
	for file, text := range map[string]string{
		dir + "/current_link_width": "16\n", dir + "/current_link_speed": "32.0 GT/s PCIe\n",
		dir + "/gpu_busy_percent":         "97\n",
		path.Dir(dir) + "/max_link_width": "8\n", path.Dir(dir) + "/max_link_speed": "16.0 GT/s PCIe\n",
	} {
		hosttest.Put(t, root, file, text)
	}
	require.Equal(t, PCIe{SpeedMax: Known(16e9), LanesMax: Known(8)}, readOnce(t, root, dir).PCIe)
}

func TestClockRange(t *testing.T) {
	for text, want := range map[string][2]float64{
		"0: 500Mhz \n1: 2310Mhz *\n2: 2525Mhz \n": {500, 2525},
		"S: 19Mhz *\n0: 615Mhz\n1: 800Mhz":        {615, 800},
		"0: 132Mhz *":                             {132, 132},
	} {
		low, high, ok := clockRange(text)
		require.True(t, ok)
		require.Equal(t, want, [2]float64{low, high})
	}
	for _, text := range []string{"", "0: 2.5GT/s, x16 619Mhz", "OD_SCLK:\n", "0: 0Mhz"} {
		_, _, ok := clockRange(text)
		require.False(t, ok, text)
	}
}

func TestClockRangeIgnoresThePresentClock(t *testing.T) {
	for name, tt := range map[string]struct {
		table     string
		low, high float64
	}{
		"levels":                           {"0: 300Mhz *\n1: 608Mhz\n2: 1340Mhz\n", 300, 1340},
		"fine-grained, idle (RX 7900 XTX)": {"0: 500Mhz\n1: 31Mhz *\n2: 2526Mhz\n", 500, 2526},
		"fine-grained, boosted":            {"0: 500Mhz\n1: 2600Mhz *\n2: 2526Mhz\n", 500, 2526},
		"fine-grained, at the lowest":      {"0: 500Mhz *\n1: 2526Mhz\n", 500, 2526},
		"asleep":                           {"S: 19Mhz *\n0: 500Mhz\n1: 3450Mhz\n", 500, 3450},
		"level 0 is called S (RX 9070)":    {"S: 500Mhz\n1: 789Mhz *\n2: 2070Mhz\n", 500, 2070},
		"the present one is 0 (RX 7600S)":  {"0: 255Mhz\n1: 0Mhz *\n2: 1841Mhz\n", 255, 1841},
	} {
		low, high, ok := clockRange(tt.table)
		require.True(t, ok, name)
		require.Equal(t, []float64{tt.low, tt.high}, []float64{low, high}, name)
	}
}

func FuzzSlowTexts(f *testing.F) {
	for _, s := range []string{"ue: 0\nce: 3\nde: 1\n", "Query currently inaccessible\n", "0x01 : 0x1000 : R\n", "0: 500Mhz *\n",
		"Fatal Error: count:2, last_seqno:7\n", "temp1_label"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := parseCounts(text); ok {
			require.True(t, n[0] >= 0 || n[1] >= 0 || n[2] >= 0)
		}
		pages := countPages(text)
		require.Equal(t, pages.Total(), pages.Retired+pages.Pending+pages.Unreservable)
		require.True(t, pages.Retired >= 0 && pages.Pending >= 0 && pages.Unreservable >= 0)
		if low, high, ok := clockRange(text); ok {
			require.True(t, low > 0 && low <= high)
		}
		if n, ok := fatalEvents(text); ok {
			require.GreaterOrEqual(t, n, int64(0))
		}
	})
}

// A link is not faster than the slower of its ends. Ports that are on the GPU's own board
// (vendor 1002) lie between the GPU and its slot.
func TestLinkLimitIsTheLowerOfGPUAndSlot(t *testing.T) {
	link := func(vendor, speed, lanes string) map[string]string {
		return map[string]string{"vendor": vendor + "\n", "max_link_speed": speed + "\n", "max_link_width": lanes + "\n"}
	}
	const amd, other = "0x1002", "0x1022"
	for name, tt := range map[string]struct {
		ports        []map[string]string // from the root on
		card         map[string]string
		speed, lanes Number
		hidden       bool
	}{
		"RX 9070 in a slot of PCIe 4": {[]map[string]string{link(other, "16.0 GT/s PCIe", "16"), link(amd, "32.0 GT/s PCIe", "16"),
			link(amd, "32.0 GT/s PCIe", "16")}, link(amd, "32.0 GT/s PCIe", "16"), Known(16e9), Known(16), false},
		"R7 240 in a slot of 4 lanes": {[]map[string]string{link(other, "8.0 GT/s PCIe", "4")},
			link(amd, "8.0 GT/s PCIe", "8"), Known(8e9), Known(4), false},
		"a switch of a server": {[]map[string]string{link(other, "8.0 GT/s PCIe", "8"), link("0x1000", "16.0 GT/s PCIe", "16")},
			link(amd, "32.0 GT/s PCIe", "16"), Known(16e9), Known(16), false},
		"a guest": {[]map[string]string{{"vendor": "0x1b36\n", "max_link_speed": "Unknown\n", "max_link_width": "255\n"}},
			link(amd, "32.0 GT/s PCIe", "16"), Known(32e9), Known(16), true},
		"no port": {nil, link(amd, "32.0 GT/s PCIe", "16"), Known(32e9), Known(16), true},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := host.Root(t.TempDir()), "/sys/devices/pci0000:00"
			for i, files := range append(tt.ports, tt.card) {
				dir = path.Join(dir, fmt.Sprintf("0000:%02x:00.0", i))
				for name, text := range files {
					hosttest.Put(t, root, path.Join(dir, name), text)
				}
			}
			hosttest.Put(t, root, path.Join(dir, "gpu_busy_percent"), "90\n")
			r := NewReader(Device{PCI: path.Base(dir), Dir: dir, Own: dir}, Options{Root: string(root), Now: func() time.Time { return hosttest.Now }})
			t.Cleanup(r.Close)
			s := r.Read()
			require.Equal(t, tt.speed, s.PCIe.SpeedMax)
			require.Equal(t, tt.lanes, s.PCIe.LanesMax)
			require.Equal(t, tt.hidden, s.PCIe.Hidden)
			require.Empty(t, s.Failures)
		})
	}
}

// boardTable is a table of sensors of a board: number and degrees of each.
func boardTable(sensors ...uint32) string {
	b := make([]byte, 16)
	b[2] = 1
	for i := 0; i < len(sensors); i += 2 {
		b = binary.LittleEndian.AppendUint32(b, sensors[i]<<24|sensors[i+1])
	}
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	return string(b)
}

func TestBoardHasItsOwnAndItsNodesValues(t *testing.T) {
	for name, power := range map[string]string{"MI350": "board/", "later": "board/npm/"} {
		t.Run(name, func(t *testing.T) {
			s := first(t, map[string]string{"gpu_busy_percent": "5\n",
				power + "node_power": "6400\n", power + "cur_node_power_limit": "9000\n", power + "max_node_power_limit": "12000\n",
				"board/baseboard_power": "310\n", "board/baseboard_temp": boardTable(0, 41, 1, 38), "board/gpuboard_temp": boardTable(1, 44)})
			require.Equal(t, Board{Node: Known(6400), NodeLimit: Known(9000), NodeLimitMax: Known(12000), Power: Known(310),
				Temperatures: []gm.BoardTemperature{{Sensor: "ubb_fpga", Celsius: 41}, {Sensor: "ubb_front", Celsius: 38}, {Sensor: "oam_ibc", Celsius: 44}}}, s.Board)
			require.Empty(t, s.Failures)
		})
	}
}

// The driver asks the firmware for each of these files.
func TestBoardIsReadOnTheTimer(t *testing.T) {
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n", "board/baseboard_power": "310\n", "board/baseboard_temp": boardTable(0, 41)})
	r, _ := readerOf(t, root)
	before := r.Read().Board
	hosttest.Put(t, root, dev+"/board/baseboard_power", "320\n")
	hosttest.Put(t, root, dev+"/board/baseboard_temp", "torn")
	require.Equal(t, before, r.Read().Board)
	require.Equal(t, []Failure{{File: "baseboard_temp", Errno: "damaged"}}, r.Poll())
	require.Equal(t, Board{Power: Known(320)}, r.Read().Board)

	later := []byte(boardTable(0, 41))
	later[3] = 2
	hosttest.Put(t, root, dev+"/board/baseboard_temp", string(later))
	require.Empty(t, r.Poll())
	require.Equal(t, []UnknownTable{{File: "baseboard_temp", Revision: "v1_2", Readings: 1}}, r.Read().Table.Unknown)
}

func TestGPUWithoutABoardHasNoBoardValues(t *testing.T) {
	require.Equal(t, Board{}, first(t, map[string]string{"gpu_busy_percent": "5\n"}).Board)
}

func TestDuplicateBoardSensorIsReportedOnce(t *testing.T) {
	s := first(t, map[string]string{"gpu_busy_percent": "5\n", "board/baseboard_temp": boardTable(0, 41, 0, 42)})
	require.Equal(t, []gm.BoardTemperature{{Sensor: "ubb_fpga", Celsius: 41}}, s.Board.Temperatures)
}

// The nearest node of a GPU, if the machine has several.
func TestIdentityHasBoardAndPlace(t *testing.T) {
	s := first(t, map[string]string{"gpu_busy_percent": "5\n", "product_number": "102-G30211-00\n", "numa_node": "1\n"})
	require.Equal(t, Identity{UUID: exportertest.PCI, ProductNumber: "102-G30211-00", NUMANode: "1"}, s.Identity)
	require.Empty(t, first(t, map[string]string{"gpu_busy_percent": "5\n", "numa_node": "-1\n"}).Identity.NUMANode)
}

// Reading the bad pages of a damaged EEPROM floods the kernel's log.
func TestBadPagesAreReadRarelyOrAfterErrors(t *testing.T) {
	const page = "0x01 : 0x1000 : R\n"
	root := exportertest.Put(t, map[string]string{"gpu_busy_percent": "5\n",
		"ras/umc_err_count": "ue: 0\nce: 0\n", "ras/gpu_vram_bad_pages": page})
	now := hosttest.Now
	r := NewReader(Device{PCI: exportertest.PCI, Dir: dev, Own: dev},
		Options{Root: string(root), Now: func() time.Time { return now }})
	t.Cleanup(r.Close)
	pages := func() int {
		r.Poll()
		return r.Read().RAS.BadPages.Retired
	}
	r.Read()
	hosttest.Put(t, root, dev+"/ras/gpu_vram_bad_pages", page+page)
	hosttest.Put(t, root, dev+"/ras/umc_err_count", "ue: 0\nce: 7\n")
	now = now.Add(59 * time.Minute)
	require.Equal(t, 1, pages())
	now = now.Add(time.Minute)
	require.Equal(t, 2, pages())
	hosttest.Put(t, root, dev+"/ras/gpu_vram_bad_pages", page+page+page)
	hosttest.Put(t, root, dev+"/ras/umc_err_count", "ue: 1\nce: 7\n")
	require.Equal(t, 3, pages())
}
