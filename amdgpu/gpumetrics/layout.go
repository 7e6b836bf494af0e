package gpumetrics

import (
	"encoding/binary"
	"math"
	"slices"
)

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

// size returns the size in bytes.
func (k kind) size() int { return 1 << (k / 2) }

func (k kind) signed() bool { return k%2 == 1 }

// row describes one field of a structure.
type row struct {
	field  Field
	offset int
	kind   kind
	count  int // more than 1: an array
	unit   unit
}

// layout describes one revision.
type layout struct {
	size int // sizeof the structure
	rows []row
	xcp  *xcpLayout
}

// extend returns a layout with further fields at the end.
func (l layout) extend(size int, further ...row) layout {
	return layout{size: size, rows: slices.Concat(l.rows, further)}
}

// powerIn returns a layout in which powers have the unit u.
func (l layout) powerIn(u unit) layout {
	l.rows = slices.Clone(l.rows)
	for i := range l.rows {
		switch l.rows[i].field {
		case AverageSocketPower, AverageCPUPower, AverageSoCPower, AverageGFXPower, AverageCorePower:
			l.rows[i].unit = u
		}
	}
	return l
}

// xcpLayout describes the array xcp_stats, with an element for each partition.
type xcpLayout struct {
	offset, stride int
	rows           []row
}

// maxPartitions is the length of xcp_stats (NUM_XCP).
const maxPartitions = 8

// decode reads the fields inside b: a truncated structure lacks its last fields.
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

// number reads a number of the kind. b must be long enough.
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

// unit defines the meaning of a number.
type unit uint8

const (
	count unit = iota // events, ticks, opaque sums
	bitmask
	celsius
	centiCelsius
	percent
	centiPercent
	watts
	milliwatts
	energy // 2^-16 J on MI200 and MI300; not stated for others
	megahertz
	millivolts
	milliamperes
	lanes
	tenthGT   // 0.1 GT/s, to transfers/s
	gigatrans // GT/s, to transfers/s
	gigabits  // of an XGMI lane, to bits/s
	gigabytes // GB/s, to bytes/s
	megabytes // MB/s, to bytes/s
	kibibytes // the header's "kilobytes" are of 1024 bytes
	nanoseconds
	tenNanoseconds
	rpm
	partitions
	flagUnit // 0 or 1
	// unclear depends on firmware that the table does not name, or differs between sources:
	// not decoded. For pcie_bandwidth_inst the kernel names GB/s, amd-smi and RDC Mb/s, and
	// an idle MI300X shows 18.
	unclear
	numUnits
)

// reading converts a number of a unit. max, in base units, is far beyond any hardware and
// excludes garbage. absentZero marks values that are never 0 while a table can be read: a
// temperature, a rail, a link that is up. The firmware writes 0 for a missing sensor or
// engine.
type reading struct {
	times, per float64 // exact if a single division is: 35 % is 0.35
	max        float64
	absentZero bool
	absent     uint64 // another number that means absent, or 0
}

var readings = [numUnits]reading{
	count:          {times: 1, per: 1, max: math.MaxUint64},
	bitmask:        {times: 1, per: 1, max: math.MaxUint64},
	celsius:        {times: 1, per: 1, max: 250, absentZero: true},
	centiCelsius:   {times: 1, per: 100, max: 250, absentZero: true},
	percent:        {times: 1, per: 100, max: 1},
	centiPercent:   {times: 1, per: 10_000, max: 1},
	watts:          {times: 1, per: 1, max: 10_000, absentZero: true},
	milliwatts:     {times: 1, per: 1000, max: 10_000, absentZero: true},
	energy:         {times: 1, per: 1 << 16, max: math.MaxUint64, absentZero: true, absent: math.MaxUint32},
	megahertz:      {times: 1e6, per: 1, max: 2e10, absentZero: true},
	millivolts:     {times: 1, per: 1000, max: 100, absentZero: true},
	milliamperes:   {times: 1, per: 1000, max: 1000},
	lanes:          {times: 1, per: 1, max: 64, absentZero: true},
	tenthGT:        {times: 1e8, per: 1, max: 1e12, absentZero: true},
	gigatrans:      {times: 1e9, per: 1, max: 1e12, absentZero: true},
	gigabits:       {times: 1e9, per: 1, max: 1e12, absentZero: true},
	gigabytes:      {times: 1e9, per: 1, max: 1e15},
	megabytes:      {times: 1e6, per: 1, max: 1e15},
	kibibytes:      {times: 1024, per: 1, max: math.MaxUint64},
	nanoseconds:    {times: 1, per: 1e9, max: math.MaxUint64},
	tenNanoseconds: {times: 1, per: 1e8, max: math.MaxUint64},
	rpm:            {times: 1, per: 1, max: 30_000},
	partitions:     {times: 1, per: 1, max: 64, absentZero: true},
	flagUnit:       {times: 1, per: 1, max: 1},
}

// value returns false for an unavailable number: all ones in its width, which the driver
// fills the table with first (smu_cmn_init_soft_gpu_metrics); 32 ones in a 64-bit energy,
// as in RDNA3's firmware interface (smu_v13_0_0_get_gpu_metrics); and values outside the
// unit's range.
func (rd *reading) value(k kind, raw uint64) (float64, bool) {
	bits := 8 * k.size()
	switch {
	case raw == math.MaxUint64>>(64-bits), raw == 0 && rd.absentZero, raw == rd.absent && raw != 0:
		return 0, false
	}
	v := float64(raw)
	if k.signed() {
		// The ends of the signed range also mean absent.
		if raw == 1<<(bits-1) || raw == 1<<(bits-1)-1 {
			return 0, false
		}
		v = float64(int64(raw<<(64-bits)) >> (64 - bits))
	}
	v = v * rd.times / rd.per
	return v, v <= rd.max && v >= -rd.max
}
