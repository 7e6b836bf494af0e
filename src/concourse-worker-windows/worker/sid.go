package worker

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

// serviceSID returns the security id of a service's own account, "NT SERVICE\name". Windows
// computes it from the name, so it is known before the service exists.
func serviceSID(name string) string {
	h := sha1.New()
	for _, c := range utf16.Encode([]rune(strings.ToUpper(name))) {
		h.Write([]byte{byte(c), byte(c >> 8)})
	}
	sum, sid := h.Sum(nil), "S-1-5-80"
	for i := 0; i < len(sum); i += 4 {
		sid += fmt.Sprintf("-%d", binary.LittleEndian.Uint32(sum[i:]))
	}
	return sid
}

// descriptor returns the security descriptor of a file or folder, as SDDL. It inherits
// nothing, and administrators own it: an owner may always change the access. sid is the
// account of the service.
func descriptor(a Access, sid string, folder bool) string {
	inherit := ""
	if folder {
		inherit = "OICI"
	}
	d := "O:BAD:P"
	allow := func(rights, to string) { d += fmt.Sprintf("(A;%s;%s;;;%s)", inherit, rights, to) }
	allow("FA", "SY") // the system
	allow("FA", "BA") // administrators
	switch a {
	case ServiceReads:
		allow("0x1200a9", sid) // read and execute
	case ServiceWrites:
		allow("0x1301bf", sid) // modify
	}
	return d
}
