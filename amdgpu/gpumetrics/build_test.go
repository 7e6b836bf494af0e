package gpumetrics

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// member is one number of a structure, with the offset that C gives it.
type member struct {
	name      string
	partition int
	index     int
	offset    int
	size      int
}

// layOut walks a declaration from offset base.
func layOut(t testing.TB, name string, base int) (members []member, size int) {
	t.Helper()
	all := maps.Clone(declarations)
	maps.Copy(all, apuDeclarations)
	text, ok := all[name]
	require.True(t, ok, name)
	at, align := base, 1
	pad := func(n int) {
		align = max(align, n)
		for at%n != 0 {
			at++
		}
	}
	for _, word := range strings.Fields(text) {
		word, times, _ := strings.Cut(word, "*")
		n := 1
		if times != "" {
			n, _ = strconv.Atoi(times)
		}
		if other, nested := strings.CutPrefix(word, "@"); nested {
			pad(8)
			for p := range n {
				inner, end := layOut(t, other, at)
				for _, m := range inner {
					m.partition = p
					members = append(members, m)
				}
				at = end
			}
			continue
		}
		name, width, _ := strings.Cut(word, ":")
		w, err := strconv.Atoi(width)
		require.NoError(t, err)
		pad(w)
		for i := range n {
			members = append(members, member{name: name, index: i, offset: at, size: w})
			at += w
		}
	}
	pad(align)
	return members, at
}

// table is a blob under construction, all ones if nothing is set.
type table struct {
	t       testing.TB
	b       []byte
	members []member
}

// newTable makes one of a declared structure; partition tables share the
// revision of v1_0.
func newTable(t testing.TB, name string) *table {
	t.Helper()
	r := Revision{1, 0}
	if name != "partition" {
		_, err := fmt.Sscanf(name, "v%d_%d", &r.Format, &r.Content)
		require.NoError(t, err)
	}
	members, size := layOut(t, name, headerSize)
	b := make([]byte, size)
	for i := range b {
		b[i] = 0xff
	}
	binary.LittleEndian.PutUint16(b, uint16(size))
	b[2], b[3] = r.Format, r.Content
	return &table{t, b, members}
}

// set writes one number; the place in an array is 0, or the one in name[3], or
// in partition and array as in name[2,3].
func (b *table) set(name string, v uint64) *table {
	b.t.Helper()
	name, place, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	partition, index := 0, 0
	if first, second, both := strings.Cut(place, ","); both {
		partition, _ = strconv.Atoi(first)
		index, _ = strconv.Atoi(second)
	} else {
		index, _ = strconv.Atoi(place)
	}
	for _, m := range b.members {
		if m.name == name && m.partition == partition && m.index == index {
			put(b.b[m.offset:], m.size, v)
			return b
		}
	}
	require.Fail(b.t, "no such member", name)
	return b
}

func put(b []byte, size int, v uint64) {
	for i := range size {
		b[i] = byte(v >> (8 * i))
	}
}

// attr appends one attribute of a stream and counts it.
func attr(b []byte, id int, k kind, unit int, values ...uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(values))|uint64(id)<<10|uint64(k)<<20|uint64(unit)<<24)
	for _, v := range values {
		for i := range k.size() {
			b = append(b, byte(v>>(8*i)))
		}
	}
	binary.LittleEndian.PutUint32(b[4:], binary.LittleEndian.Uint32(b[4:])+1)
	return b
}

// stream begins an attribute stream; sealed ends it.
func stream(r Revision) []byte { return []byte{0, 0, r.Format, r.Content, 0, 0, 0, 0} }

func sealed(b []byte) []byte {
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	return b
}

// text is what was decoded, a line a value: name[partition,index]=value.
func text(values []Value) map[string]float64 {
	out := map[string]float64{}
	for _, v := range values {
		key := v.Field.String()
		switch {
		case v.Partition > 0:
			key += fmt.Sprintf("[%d,%d]", v.Partition, v.Index)
		case v.Index > 0:
			key += fmt.Sprintf("[%d]", v.Index)
		}
		out[key] = v.Value
	}
	return out
}
