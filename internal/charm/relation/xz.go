package relation

import (
	"encoding/binary"
	"hash/crc32"
	"hash/crc64"
)

// maxChunk is the length of the longest uncompressed chunk of LZMA2.
const maxChunk = 1 << 16

var xzCheck = crc64.MakeTable(crc64.ECMA)

// xz returns data as an .xz file (specification 1.2.1) with the CRC64 check that the xz
// program uses. Its LZMA2 chunks are stored without compression. Every reader of .xz
// accepts that, and the size of a databag does not matter.
func xz(data []byte) []byte {
	le := binary.LittleEndian
	flags := []byte{0, 4} // stream flags: the check is CRC64
	out := append([]byte("\xfd7zXZ\x00"), flags...)
	out = le.AppendUint32(out, crc32.ChecksumIEEE(flags))

	start := len(out)
	// Block header: 12 bytes in all, one filter, no sizes; LZMA2 (0x21) with one
	// byte of properties, which asks for the smallest dictionary, of 4 KiB.
	header := []byte{12/4 - 1, 0, 0x21, 1, 0, 0, 0, 0}
	out = le.AppendUint32(append(out, header...), crc32.ChecksumIEEE(header))
	for rest, first := data, true; len(rest) > 0; first = false {
		n := min(len(rest), maxChunk)
		control := byte(2) // uncompressed
		if first {
			control = 1 // and the dictionary is reset
		}
		out = binary.BigEndian.AppendUint16(append(out, control), uint16(n-1))
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	out = append(out, 0) // the end of LZMA2
	const check = 8
	unpadded := len(out) - start + check
	out = pad(out, start)
	out = le.AppendUint64(out, crc64.Checksum(data, xzCheck))

	index := len(out)
	out = append(out, 0, 1) // an index of one record
	out = binary.AppendUvarint(out, uint64(unpadded))
	out = binary.AppendUvarint(out, uint64(len(data)))
	out = pad(out, index)
	out = le.AppendUint32(out, crc32.ChecksumIEEE(out[index:]))

	footer := le.AppendUint32(nil, uint32((len(out)-index)/4-1))
	footer = append(footer, flags...)
	out = le.AppendUint32(out, crc32.ChecksumIEEE(footer))
	out = append(out, footer...)
	return append(out, 'Y', 'Z')
}

// pad extends the part from start to a multiple of four bytes.
func pad(b []byte, start int) []byte {
	for (len(b)-start)%4 != 0 {
		b = append(b, 0)
	}
	return b
}
