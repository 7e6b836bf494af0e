package gpumetrics

import (
	"encoding/binary"
	"fmt"
)

// decodeStream reads gpu_metrics v1_9 and partition metrics v1_1: a count, and
// that many attributes one after the other without any alignment. Each is a
// 64-bit encoding and then its instances. Attributes that are not known here
// are passed over by their size.
//
// The encoding has the number of instances in bits 0-9, the attribute in
// 10-19, the type in 20-23 and the unit in 24-31 (AMDGPU_METRICS_ENC_ATTR).
func decodeStream(b []byte, values []Value) ([]Value, error) {
	const first = headerSize + 4
	if len(b) < first {
		return values, fmt.Errorf("%w: %d bytes", errDamaged, len(b))
	}
	begin, named51 := len(values), false
	var seen [len(streamFields)]bool // what is told twice is told once
	left := int32(binary.LittleEndian.Uint32(b[headerSize:]))
	for b = b[first:]; left > 0; left-- {
		if len(b) < 8 {
			return values, fmt.Errorf("%w: %d attributes missing", errDamaged, left)
		}
		encoding := binary.LittleEndian.Uint64(b)
		b = b[8:]
		instances, id := int(encoding&0x3ff), int(encoding>>10&0x3ff)
		k, named := kind(encoding>>20&0xf), int(encoding>>24&0xff)
		if k >= numKinds {
			return values, fmt.Errorf("%w: attribute %d of type %d", errDamaged, id, k)
		}
		if instances*k.size() > len(b) {
			return values, fmt.Errorf("%w: attribute %d ends after the table", errDamaged, id)
		}
		named51 = named51 || id == 51
		if id < len(streamFields) && !seen[id] {
			seen[id] = true
			if u, ok := streamUnit(streamFields[id].unit, named); ok {
				r := row{streamFields[id].field, 0, k, instances, u}
				values = r.decode(b, 0, values)
			}
		}
		b = b[instances*k.size():]
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
