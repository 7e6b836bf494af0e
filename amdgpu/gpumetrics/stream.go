package gpumetrics

import (
	"encoding/binary"
	"fmt"
)

// attributes holds the unread rest of a table of attributes: gpu_metrics v1_9, partition
// metrics v1_1 and temperatures of boards v1_1. The table has a count, and that many
// attributes without any alignment. Each is a 64-bit encoding, followed by its instances.
type attributes struct {
	b    []byte
	left int32
}

// attribute is one attribute. values holds its instances.
type attribute struct {
	id, instances, unit int
	kind                kind
	values              []byte
}

// newAttributes skips the header of a table.
func newAttributes(b []byte) (attributes, error) {
	const first = headerSize + 4
	if len(b) < first {
		return attributes{}, fmt.Errorf("%w: %d bytes", errDamaged, len(b))
	}
	return attributes{b[first:], int32(binary.LittleEndian.Uint32(b[headerSize:]))}, nil
}

// next returns the next attribute.
//
// The encoding has the number of instances in bits 0-9, the attribute in 10-19, the type in
// 20-23 and the unit in 24-31 (AMDGPU_METRICS_ENC_ATTR).
func (s *attributes) next() (a attribute, err error) {
	if len(s.b) < 8 {
		return a, fmt.Errorf("%w: %d attributes missing", errDamaged, s.left)
	}
	encoding := binary.LittleEndian.Uint64(s.b)
	s.b = s.b[8:]
	a = attribute{id: int(encoding >> 10 & 0x3ff), instances: int(encoding & 0x3ff), unit: int(encoding >> 24 & 0xff),
		kind: kind(encoding >> 20 & 0xf)}
	if a.kind >= numKinds {
		return a, fmt.Errorf("%w: attribute %d of type %d", errDamaged, a.id, a.kind)
	}
	size := a.instances * a.kind.size()
	if size > len(s.b) {
		return a, fmt.Errorf("%w: attribute %d ends after the table", errDamaged, a.id)
	}
	a.values, s.b = s.b[:size], s.b[size:]
	s.left--
	return a, nil
}

// decodeStream reads gpu_metrics v1_9 and partition metrics v1_1. Unknown attributes are
// skipped.
func decodeStream(b []byte, values []Value) ([]Value, error) {
	s, err := newAttributes(b)
	if err != nil {
		return values, err
	}
	begin, named51 := len(values), false
	var seen [len(streamFields)]bool // skips duplicates
	for s.left > 0 {
		a, err := s.next()
		if err != nil {
			return values, err
		}
		named51 = named51 || a.id == 51
		if a.id < len(streamFields) && !seen[a.id] {
			seen[a.id] = true
			if u, ok := streamUnit(streamFields[a.id].unit, a.unit); ok {
				r := row{streamFields[a.id].field, 0, a.kind, a.instances, u}
				values = r.decode(a.values, 0, values)
			}
		}
	}
	if !named51 {
		asDKMS(values[begin:])
	}
	return values, nil
}

// asDKMS corrects the temperatures of dies in a table from AMD's own driver package (DKMS,
// 0ce779bf): there attribute 49 is the AID and 50 the XCD, while mainline has 49 MID, 50
// AID and 51 XCD.
func asDKMS(values []Value) {
	for i, v := range values {
		switch v.Field {
		case TemperatureMid:
			values[i].Field = TemperatureAid
		case TemperatureAid:
			values[i].Field = TemperatureXcd
		}
	}
}

// streamUnits maps the unit codes (enum amdgpu_metrics_attr_unit), from 1 on.
var streamUnits = [...]unit{megahertz, celsius, watts, nanoseconds, tenNanoseconds, gigatrans, tenthGT,
	gigabytes, kibibytes, percent}

// streamUnit returns the unit in the encoding if it has the field's dimension. Sums and
// flags keep their own unit.
func streamUnit(own unit, named int) (unit, bool) {
	if own == count || own == flagUnit || own == partitions || named == 0 {
		return own, true
	}
	if named > len(streamUnits) {
		return 0, false
	}
	u := streamUnits[named-1]
	return u, u.dimension() == own.dimension()
}

// dimension returns the first of the units with the same dimension.
func (u unit) dimension() unit {
	switch u {
	case centiCelsius:
		return celsius
	case centiPercent:
		return percent
	case milliwatts:
		return watts
	case gigatrans, gigabits:
		return tenthGT
	case megabytes:
		return gigabytes
	case tenNanoseconds:
		return nanoseconds
	}
	return u
}

// streamFields maps the attributes of gpu_metrics v1_9 and of partition metrics v1_1 by
// their number (enum amdgpu_metrics_attr_id in kgd_pp_interface.h) to fields and default
// units. Later attributes are not read.
var streamFields = [...]struct {
	field Field
	unit  unit
}{
	0:  {TemperatureHotspot, celsius},
	1:  {TemperatureMem, celsius},
	2:  {TemperatureVRSoC, celsius},
	3:  {CurrSocketPower, watts},
	4:  {AverageGFXActivity, percent},
	5:  {AverageUMCActivity, percent},
	6:  {MemMaxBandwidth, gigabytes},
	7:  {EnergyAccumulator, energy},
	8:  {SystemClockCounter, nanoseconds},
	9:  {AccumulationCounter, count},
	10: {ProchotResidencyAcc, count},
	11: {PPTResidencyAcc, count},
	12: {SocketThermalResidencyAcc, count},
	13: {VRThermalResidencyAcc, count},
	14: {HBMThermalResidencyAcc, count},
	15: {GfxclkLockStatus, count},
	16: {PCIeLinkWidth, lanes},
	17: {PCIeLinkSpeed, tenthGT},
	18: {XGMILinkWidth, lanes},
	19: {XGMILinkSpeed, gigabits},
	20: {GFXActivityAcc, count},
	21: {MemActivityAcc, count},
	22: {PCIeBandwidthAcc, count},
	23: {PCIeBandwidthInst, unclear},
	24: {PCIeL0ToRecovCountAcc, count},
	25: {PCIeReplayCountAcc, count},
	26: {PCIeReplayRoverCountAcc, count},
	27: {PCIeNAKSentCountAcc, count},
	28: {PCIeNAKRcvdCountAcc, count},
	29: {XGMIReadDataAcc, kibibytes},
	30: {XGMIWriteDataAcc, kibibytes},
	31: {XGMILinkStatus, flagUnit},
	32: {FirmwareTimestamp, tenNanoseconds},
	33: {CurrentGfxclk, megahertz},
	34: {CurrentSocclk, megahertz},
	35: {CurrentVclk0, megahertz},
	36: {CurrentDclk0, megahertz},
	37: {CurrentUclk, megahertz},
	38: {NumPartition, partitions},
	39: {PCIeLCPerfOtherEndRecovery, count},
	40: {GFXBusyInst, percent},
	41: {JPEGBusy, percent},
	42: {VCNBusy, percent},
	43: {GFXBusyAcc, count},
	44: {GFXBelowHostLimitPPTAcc, count},
	45: {GFXBelowHostLimitThermalAcc, count},
	46: {GFXLowUtilizationAcc, count},
	47: {GFXBelowHostLimitTotalAcc, count},
	48: {TemperatureHBM, celsius},
	49: {TemperatureMid, celsius},
	50: {TemperatureAid, celsius},
	51: {TemperatureXcd, celsius},
}

// partition1_0 is struct amdgpu_partition_metrics_v1_0. Its header has the same revision as
// gpu_metrics v1_0; only the file distinguishes them.
var partition1_0 = layout{size: 488, rows: []row{
	{CurrentGfxclk, 4, u16, 8, megahertz},
	{CurrentSocclk, 20, u16, 4, megahertz},
	{CurrentVclk0, 28, u16, 4, megahertz},
	{CurrentDclk0, 36, u16, 4, megahertz},
	{CurrentUclk, 44, u16, 1, megahertz},
	{GFXBusyInst, 48, u32, 8, percent},
	{JPEGBusy, 80, u16, 40, percent},
	{VCNBusy, 160, u16, 4, percent},
	{GFXBusyAcc, 168, u64, 8, count},
	{GFXBelowHostLimitPPTAcc, 232, u64, 8, count},
	{GFXBelowHostLimitThermalAcc, 296, u64, 8, count},
	{GFXLowUtilizationAcc, 360, u64, 8, count},
	{GFXBelowHostLimitTotalAcc, 424, u64, 8, count},
}}
