package gpumetrics

import "encoding/binary"

// kind is the type of a number.
type kind uint8

// The types; the first eight have the codes of the attribute streams (enum
// amdgpu_metrics_attr_type).
const (
	u8 kind = iota
	s8
	u16
	s16
	u32
	s32
	u64
	s64
	numKinds
)

// size is in bytes.
func (k kind) size() int { return 1 << (k / 2) }

func (k kind) signed() bool { return k%2 == 1 }

// row is one field of a structure.
type row struct {
	field  Field
	offset int
	kind   kind
	count  int // more than 1: an array
	unit   unit
}

// layout is one revision.
type layout struct {
	size int // sizeof the structure
	rows []row
	xcp  *xcpLayout
}

// xcpLayout is the array xcp_stats: one element a partition.
type xcpLayout struct {
	offset, stride int
	rows           []row
}

// maxPartitions is the length of xcp_stats (NUM_XCP).
const maxPartitions = 8

// decode reads what lies inside b: a structure that ends early lacks its last
// fields.
func (l *layout) decode(b []byte, values []Value) []Value {
	for i := range l.rows {
		values = l.rows[i].decode(b, 0, values)
	}
	if l.xcp == nil {
		return values
	}
	for p := range maxPartitions {
		base := l.xcp.offset + p*l.xcp.stride
		for i := range l.xcp.rows {
			from := len(values)
			values = l.xcp.rows[i].decode(b, base, values)
			for i := range values[from:] {
				values[from+i].Partition = uint8(p)
			}
		}
	}
	return values
}

func (r *row) decode(b []byte, base int, values []Value) []Value {
	at, step := base+r.offset, r.kind.size()
	rd := &readings[r.unit]
	if rd.times == 0 { // unclear
		return values
	}
	for i := 0; i < r.count && at+step <= len(b); i++ {
		raw := number(b[at:], r.kind)
		at += step
		if v, ok := rd.value(r.kind, raw); ok {
			values = append(values, Value{Field: r.field, Bits: uint8(8 * step), Index: uint16(i), Raw: raw, Value: v})
		}
	}
	return values
}

// number reads a number of the kind; b is long enough for it.
func number(b []byte, k kind) uint64 {
	switch k.size() {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}
