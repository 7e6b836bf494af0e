package gpumetrics

import "math"

// unit is how a number is to be read.
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
	kibibytes // the header says kilobytes and means 1024
	nanoseconds
	tenNanoseconds
	rpm
	partitions
	flagUnit // 0 or 1
	// unclear depends on firmware that the table does not name, or is told otherwise by
	// each source: not decoded. Of pcie_bandwidth_inst the kernel says GB/s, amd-smi and
	// RDC Mb/s, and an idle MI300X shows 18.
	unclear
	numUnits
)

// reading says what a number in a unit is worth. max, in base units, is wide of
// anything that hardware can be: it keeps garbage out. absentZero is for what
// is never 0 while there is a table to read: a temperature, a rail, a link
// that is up. The firmware fills 0 where a sensor or an engine is not there.
type reading struct {
	times, per float64 // exact where one division is: 35 % is 0.35
	max        float64
	absentZero bool
	absent     uint64 // one more number that means so, or 0
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

// value is false for what is not available: all ones in the number's width,
// which the driver fills the table with first (smu_cmn_init_soft_gpu_metrics);
// 32 ones in a 64-bit energy, which RDNA3's firmware interface has
// (smu_v13_0_0_get_gpu_metrics); and what the unit cannot be.
func (rd *reading) value(k kind, raw uint64) (float64, bool) {
	bits := 8 * k.size()
	switch {
	case raw == math.MaxUint64>>(64-bits), raw == 0 && rd.absentZero, raw == rd.absent && raw != 0:
		return 0, false
	}
	v := float64(raw)
	if k.signed() {
		// The sign bit alone, and all but it, are the ends of the range.
		if raw == 1<<(bits-1) || raw == 1<<(bits-1)-1 {
			return 0, false
		}
		v = float64(int64(raw<<(64-bits)) >> (64 - bits))
	}
	v = v * rd.times / rd.per
	return v, v <= rd.max && v >= -rd.max
}
