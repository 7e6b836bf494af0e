//go:build e2e

package windows

import (
	"bytes"
	"encoding/binary"
)

// forwarder returns a library for Windows (PE, amd64) with one export, which is a function of
// another library. It has no code.
func forwarder(library, export, to string) []byte {
	const address, aligned = 0x1000, 0x200
	const header = 40 + 4 + 4 + 2 // directory, addresses, names, ordinals
	nameAt := uint32(address + header)
	exportAt := nameAt + uint32(len(library)) + 1
	toAt := exportAt + uint32(len(export)) + 1
	var section, file bytes.Buffer
	put := func(b *bytes.Buffer, values ...any) {
		for _, v := range values {
			_ = binary.Write(b, binary.LittleEndian, v) // a Buffer never fails
		}
	}
	put(&section, uint64(0), uint32(0), nameAt, uint32(1), uint32(1), uint32(1), uint32(address+40), uint32(address+44),
		uint32(address+48), toAt, exportAt, uint16(0))
	section.WriteString(library + "\x00" + export + "\x00" + to + "\x00")
	size := uint32(section.Len())
	section.Write(make([]byte, aligned-section.Len()%aligned))

	file.WriteString("MZ" + string(make([]byte, 58)))
	put(&file, uint32(64))
	file.WriteString("PE\x00\x00")
	put(&file, uint16(0x8664), uint16(1), uint64(0), uint32(0), uint16(240), uint16(0x2022)) // a DLL for amd64
	put(&file, uint16(0x20b), uint16(14), uint32(0), uint32(section.Len()), uint64(0), uint32(address),
		uint64(0x180000000), uint32(address), uint32(aligned), uint16(6), uint16(0), uint32(0), uint16(6), uint16(0), uint32(0),
		uint32(0x2000), uint32(aligned), uint32(0), uint16(2), uint16(0x160),
		uint64(0x100000), uint64(0x1000), uint64(0x100000), uint64(0x1000), uint32(0), uint32(16), uint32(address), size)
	file.Write(make([]byte, 15*8))
	file.WriteString(".edata\x00\x00")
	put(&file, size, uint32(address), uint32(section.Len()), uint32(aligned), uint64(0), uint32(0), uint32(0x40000040))
	file.Write(make([]byte, aligned-file.Len()))
	file.Write(section.Bytes())
	return file.Bytes()
}
