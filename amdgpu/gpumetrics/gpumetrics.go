// Package gpumetrics decodes the binary tables in amdgpu's sysfs files gpu_metrics and
// xcp/xcp_metrics. Their layouts are from the kernel's
// drivers/gpu/drm/amd/include/kgd_pp_interface.h (7.1), as tables of offsets for each
// revision. All numbers are little-endian.
//
// A value that the firmware lacks is left out; it is never 0 and never all ones. Values are
// in Prometheus' base units. The package reads no files. It never panics and never reads
// past its input.
package gpumetrics

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Revision is the version of a table, from its header.
type Revision struct{ Format, Content uint8 }

// String returns the revision as the kernel writes it: "v1_3".
func (r Revision) String() string { return fmt.Sprintf("v%d_%d", r.Format, r.Content) }

// AtLeast compares within one format.
func (r Revision) AtLeast(content uint8) bool { return r.Content >= content }

// Value holds one number of a table.
type Value struct {
	Field     Field
	Partition uint8   // in the statistics by partition (v1_6 to v1_8), otherwise 0
	Bits      uint8   // width of the number, after which a counter wraps around
	Index     uint16  // index in an array, otherwise 0
	Raw       uint64  // unconverted; for bit masks
	Value     float64 // in base units: degrees Celsius, W, J, Hz, V, A, s, bytes, ratio
}

// Errors of the decoders.
var (
	// ErrUnknown means a revision without a layout in this package.
	ErrUnknown = errors.New("unknown revision")
	// errDamaged means a table that is inconsistent or truncated.
	errDamaged = errors.New("damaged table")
)

const headerSize = 4

// Decode appends the values of a gpu_metrics table to values. The revision is also valid
// with ErrUnknown. b may be longer than the table.
func Decode(b []byte, values []Value) (Revision, []Value, error) {
	return decode(b, values, layouts, Revision{1, 9})
}

// DecodePartition decodes an xcp_metrics table as Decode does. Its revisions have the
// numbers of gpu_metrics', but other layouts.
func DecodePartition(b []byte, values []Value) (Revision, []Value, error) {
	return decode(b, values, partitionLayouts, Revision{1, 1})
}

var layouts = map[Revision]*layout{
	{1, 0}: &v1_0, {1, 1}: &v1_1, {1, 2}: &v1_2, {1, 3}: &v1_3, {1, 4}: &v1_4,
	{1, 5}: &v1_5, {1, 6}: &v1_6, {1, 7}: &v1_7, {1, 8}: &v1_8, {2, 0}: &v2_0,
	{2, 1}: &v2_1, {2, 2}: &v2_2, {2, 3}: &v2_3, {2, 4}: &v2_4, {3, 0}: &v3_0,
}

var partitionLayouts = map[Revision]*layout{{1, 0}: &partition1_0}

func decode(b []byte, values []Value, layouts map[Revision]*layout, stream Revision) (Revision, []Value, error) {
	if len(b) < headerSize {
		return Revision{}, values, fmt.Errorf("%w: %d bytes", errDamaged, len(b))
	}
	r := Revision{b[2], b[3]}
	size := int(binary.LittleEndian.Uint16(b))
	l := layouts[r]
	switch {
	case size < headerSize || r.Format == 0:
		return r, values, fmt.Errorf("%w: header has %d bytes, %s", errDamaged, size, r)
	case size > len(b):
		return r, values, fmt.Errorf("%w: %d of %d bytes", errDamaged, len(b), size)
	case r == stream:
		out, err := decodeStream(b[:size], values)
		return r, out, err
	case l == nil:
		return r, values, fmt.Errorf("%w: %s", ErrUnknown, r)
	}
	return r, l.decode(b[:size], values), nil
}
