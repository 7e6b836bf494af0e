package resource

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// dearmor decodes the ASCII armor of one public key (RFC 9580, section 6.2).
func dearmor(data []byte) ([]byte, error) {
	if bytes.Count(data, []byte("-----BEGIN PGP")) != 1 {
		return nil, errors.New("it holds more than one key")
	}
	_, text, _ := strings.Cut(string(data), "-----BEGIN ")
	kind, text, _ := strings.Cut(text, "-----")
	text, _, ended := strings.Cut(text, "-----END "+kind+"-----")
	if !ended {
		return nil, errors.New("its armor is damaged: it has no end")
	}
	if kind != "PGP PUBLIC KEY BLOCK" {
		return nil, fmt.Errorf("it is a %s, not a public key", kind)
	}
	// The rest of the first line is one; an empty line ends the headers.
	lines := strings.Split(text, "\n")[1:]
	for len(lines) > 0 && strings.TrimSpace(lines[0]) != "" {
		lines = lines[1:]
	}
	var body, sum string
	for _, line := range lines {
		if line = strings.TrimSpace(line); len(line) == 5 && line[0] == '=' {
			sum = line[1:]
		} else {
			body += line
		}
	}
	out, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, fmt.Errorf("its armor is damaged: %w", err)
	}
	if sum != "" && sum != checksum(out) {
		return nil, errors.New("its armor is damaged: its checksum is another")
	}
	return out, nil
}

// checksum returns the CRC-24 that may end an armor (RFC 9580, section 6.1).
func checksum(data []byte) string {
	crc := uint32(0xb704ce)
	for _, b := range data {
		crc ^= uint32(b) << 16
		for range 8 {
			if crc <<= 1; crc&0x1000000 != 0 {
				crc ^= 0x1864cfb
			}
		}
	}
	return base64.StdEncoding.EncodeToString([]byte{byte(crc >> 16), byte(crc >> 8), byte(crc)})
}
