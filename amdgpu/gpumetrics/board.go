package gpumetrics

import (
	"encoding/binary"
	"fmt"
)

// BoardTemperature holds one sensor of a GPU's board, in degrees Celsius.
type BoardTemperature struct {
	Sensor  string
	Celsius float64
}

// The sensors by their numbers in the tables (enums amdgpu_system_temp, amdgpu_node_temp
// and amdgpu_vr_temp in kgd_pp_interface.h).
var (
	baseboardSensors = []string{"ubb_fpga", "ubb_front", "ubb_back", "ubb_oam7", "ubb_ibc", "ubb_ufpga", "ubb_oam1",
		"oam_0_1_hsc", "oam_2_3_hsc", "oam_4_5_hsc", "oam_6_7_hsc", "ubb_fpga_0v72_vr", "ubb_fpga_3v3_vr",
		"retimer_0_1_2_3_1v2_vr", "retimer_4_5_6_7_1v2_vr", "retimer_0_1_0v9_vr", "retimer_4_5_0v9_vr",
		"retimer_2_3_0v9_vr", "retimer_6_7_0v9_vr", "oam_0_1_2_3_3v3_vr", "oam_4_5_6_7_3v3_vr", "ibc_hsc", "ibc"}
	nodeSensors = []string{"retimer", "oam_ibc", "oam_ibc_2", "oam_vdd18_vr", "oam_04_hbm_b_vr", "oam_04_hbm_d_vr"}
	vrSensors   = []string{"vddcr_vdd0", "vddcr_vdd1", "vddcr_vdd2", "vddcr_vdd3", "vddcr_soc_a", "vddcr_soc_c",
		"vddcr_socio_a", "vddcr_socio_c", "vdd_085_hbm", "vddcr_11_hbm_b", "vddcr_11_hbm_d", "vdd_usr", "vddio_11_e32"}
)

// streamVRSensors lists the voltage regulators of later boards (SMU 15.0.8).
var streamVRSensors = []string{"vddcr_socio_a", "vddcr_socio_c", "vddcr_x0", "vddcr_x1", "vddio_hbm_b", "vddio_hbm_d",
	"vddio_04_hbm_b", "vddio_04_hbm_d", "vddcr_hbm_b", "vddcr_hbm_d", "vddcr_075_hbm_b", "vddcr_075_hbm_d",
	"vddio_11_gta_a", "vddio_11_gta_c", "vddan_075_gta_a", "vddan_075_gta_c", "vddcr_075_ucie", "vddio_065_ucieaa",
	"vddio_065_ucieam_a", "vddio_065_ucieam_c", "vddan_075"}

// boardAttributes lists the sensors of tables v1_1 by the number of their first attribute
// (enum amdgpu_metrics_attr_id in kgd_pp_interface.h): 52 and 53 are label_version and
// node_id.
var boardAttributes = []struct {
	first int
	names []string
}{{54, nodeSensors}, {60, streamVRSensors}, {81, baseboardSensors}}

// boardBegin is the offset of the first sensor: after the header, label_version, node_id
// and accumulation_counter.
const boardBegin = 16

// nodeEntries is the number of places for sensors of the GPU's own board. Those of its
// voltage regulators follow.
const nodeEntries = 12

// DecodeBaseboard returns the sensors of a baseboard_temp table.
func DecodeBaseboard(b []byte) ([]BoardTemperature, error) {
	return decodeBoard(b, func(b []byte) []BoardTemperature { return boardSensors(nil, b, baseboardSensors) })
}

// DecodeGPUBoard returns the sensors of a gpuboard_temp table.
func DecodeGPUBoard(b []byte) ([]BoardTemperature, error) {
	return decodeBoard(b, func(b []byte) []BoardTemperature {
		split := min(4*nodeEntries, len(b))
		return boardSensors(boardSensors(nil, b[:split], nodeSensors), b[split:], vrSensors)
	})
}

// decodeBoard checks the header, and reads a table of either revision: v1_0 has places of
// one size, which depend on the table, and v1_1 has numbered attributes.
func decodeBoard(b []byte, places func([]byte) []BoardTemperature) ([]BoardTemperature, error) {
	if len(b) < headerSize+4 {
		return nil, fmt.Errorf("%w: %d bytes", errDamaged, len(b))
	}
	size, r := int(binary.LittleEndian.Uint16(b)), Revision{b[2], b[3]}
	stream := r == Revision{1, 1}
	switch {
	case !stream && r != Revision{1, 0}:
		return nil, fmt.Errorf("%w: %s", ErrUnknown, r)
	case size > len(b) || !stream && size < boardBegin:
		return nil, fmt.Errorf("%w: header has %d of %d bytes", errDamaged, size, len(b))
	case stream:
		return boardStreamSensors(b[:size])
	}
	return places(b[boardBegin:size]), nil
}

// boardStreamSensors reads a table v1_1, whose attributes have one instance each.
func boardStreamSensors(b []byte) (out []BoardTemperature, err error) {
	s, err := newAttributes(b)
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for s.left > 0 {
		a, err := s.next()
		if err != nil {
			return nil, err
		}
		for _, of := range boardAttributes {
			i := a.id - of.first
			if i < 0 || i >= len(of.names) || a.instances != 1 || seen[a.id] {
				continue
			}
			if v, ok := readings[celsius].value(a.kind, number(a.values, a.kind)); ok && v > 0 {
				seen[a.id] = true
				out = append(out, BoardTemperature{of.names[i], v})
			}
		}
	}
	return out, nil
}

// boardSensors reads numbers with a sensor in their upper 8 bits and degrees in the lower
// 24. A missing sensor is all ones.
func boardSensors(out []BoardTemperature, b []byte, names []string) []BoardTemperature {
	seen := uint32(0) // skips duplicates; no list of names is longer
	for ; len(b) >= 4; b = b[4:] {
		n := binary.LittleEndian.Uint32(b)
		id, t := int(n>>24), float64(n&0xffffff)
		if id < len(names) && seen&(1<<id) == 0 && t > 0 && t <= readings[celsius].max {
			seen |= 1 << id
			out = append(out, BoardTemperature{names[id], t})
		}
	}
	return out
}
