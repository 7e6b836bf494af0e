package amdgpu

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	gm "concourse-ci-machine/internal/gpu/amd/gpumetrics"
	"concourse-ci-machine/internal/testutil/exportertest"
	"concourse-ci-machine/internal/testutil/hosttest"
)

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

func TestBoardTellsOfItselfAndItsNode(t *testing.T) {
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
	before := read(r).Board
	hosttest.Put(t, root, dev+"/board/baseboard_power", "320\n")
	hosttest.Put(t, root, dev+"/board/baseboard_temp", "torn")
	require.Equal(t, before, read(r).Board)
	require.Equal(t, []Failure{{"baseboard_temp", "damaged"}}, r.Poll())
	require.Equal(t, Board{Power: Known(320)}, read(r).Board)

	later := []byte(boardTable(0, 41))
	later[3] = 2
	hosttest.Put(t, root, dev+"/board/baseboard_temp", string(later))
	require.Empty(t, r.Poll())
	require.Equal(t, []UnknownTable{{"baseboard_temp", "v1_2", 1}}, read(r).Table.Unknown)
}

func TestGPUWithoutABoardTellsOfNone(t *testing.T) {
	require.Equal(t, Board{}, first(t, map[string]string{"gpu_busy_percent": "5\n"}).Board)
}

func TestBoardSensorThatIsThereTwiceIsToldOnce(t *testing.T) {
	s := first(t, map[string]string{"gpu_busy_percent": "5\n", "board/baseboard_temp": boardTable(0, 41, 0, 42)})
	require.Equal(t, []gm.BoardTemperature{{Sensor: "ubb_fpga", Celsius: 41}}, s.Board.Temperatures)
}

// The node that a GPU is nearest to, where the machine has several.
func TestIdentityIsOfTheBoardAndItsPlace(t *testing.T) {
	s := first(t, map[string]string{"gpu_busy_percent": "5\n", "product_number": "102-G30211-00\n", "numa_node": "1\n"})
	require.Equal(t, Identity{UUID: exportertest.PCI, ProductNumber: "102-G30211-00", NUMANode: "1"}, s.Identity)
	require.Empty(t, first(t, map[string]string{"gpu_busy_percent": "5\n", "numa_node": "-1\n"}).Identity.NUMANode)
}
