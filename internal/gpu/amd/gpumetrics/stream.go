package gpumetrics

import (
	"encoding/binary"
	"fmt"
)

// attributes is what is left of a table of attributes: gpu_metrics v1_9, partition metrics v1_1
// and temperatures of boards v1_1. It has a count, and that many attributes one after the
// other without any alignment. Each is a 64-bit encoding and then its instances.
type attributes struct {
	b    []byte
	left int32
}

// attribute is one of them. values holds its instances.
type attribute struct {
	id, instances, unit int
	kind                kind
	values              []byte
}

// newAttributes begins after the header of a table.
func newAttributes(b []byte) (attributes, error) {
	const first = headerSize + 4
	if len(b) < first {
		return attributes{}, fmt.Errorf("%w: %d bytes", errDamaged, len(b))
	}
	return attributes{b[first:], int32(binary.LittleEndian.Uint32(b[headerSize:]))}, nil
}

// next takes the next attribute.
//
// The encoding has the number of instances in bits 0-9, the attribute in
// 10-19, the type in 20-23 and the unit in 24-31 (AMDGPU_METRICS_ENC_ATTR).
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

// decodeStream reads gpu_metrics v1_9 and partition metrics v1_1. Attributes that are not
// known here are passed over.
func decodeStream(b []byte, values []Value) ([]Value, error) {
	s, err := newAttributes(b)
	if err != nil {
		return values, err
	}
	begin, named51 := len(values), false
	var seen [len(streamFields)]bool // what is told twice is told once
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

// asDKMS puts the temperatures of dies right where AMD's own driver package (DKMS,
// 0ce779bf) wrote the table: there attribute 49 is the AID and 50 the XCD, where
// mainline has 49 MID, 50 AID and 51 XCD.
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

// streamUnits are the unit codes (enum amdgpu_metrics_attr_unit) from 1 on.
var streamUnits = [...]unit{megahertz, celsius, watts, nanoseconds, tenNanoseconds, gigatrans, tenthGT,
	gigabytes, kibibytes, percent}

// streamUnit is the unit that the encoding names, if it measures the same as
// the field. Sums and flags are what they are, whatever it names.
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

// dimension is the first of the units that measure the same.
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
