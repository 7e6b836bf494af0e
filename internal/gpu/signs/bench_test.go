package signs

import "testing"

// A damaged EEPROM logs thousands of lines at a reading.
func BenchmarkRead(b *testing.B) {
	for range b.N {
		Read("amdgpu 0000:43:00.0: amdgpu: RAS EEPROM record 1961 is invalid, address 0x7a9000")
	}
}
