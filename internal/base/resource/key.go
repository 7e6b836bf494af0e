package resource

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
)

// OpenPGP packet tags of a transferable public key (RFC 9580, sections 5 and 10.1).
const (
	tagSignature     = 2
	tagPublicKey     = 6
	tagTrust         = 12
	tagUserID        = 13
	tagPublicSubkey  = 14
	tagUserAttribute = 17
)

// parseKey reads one OpenPGP public key, armored or binary. It returns the key as binary,
// which apt reads from a .gpg file, and the fingerprint of its primary key as 40 upper-case
// hex digits. A second primary key, a secret key and any other packet is an error, because
// a trusted fingerprint must not admit other content. Subkeys are allowed, because gpgv
// accepts only those that the primary key signed.
func parseKey(data []byte) (binaryKey []byte, fingerprint string, err error) {
	// A binary packet begins with a byte that no text begins with.
	if len(data) > 0 && data[0]&0x80 == 0 && bytes.Contains(data, []byte("-----BEGIN PGP")) {
		if data, err = dearmor(data); err != nil {
			return nil, "", err
		}
	}
	for rest := data; len(rest) > 0; {
		tag, body, after, err := nextPacket(rest)
		if err != nil {
			return nil, "", err
		}
		switch tag {
		case tagPublicKey:
			if fingerprint != "" {
				return nil, "", errors.New("it holds more than one key")
			}
			if fingerprint, err = v4Fingerprint(body); err != nil {
				return nil, "", err
			}
		case tagSignature, tagTrust, tagUserID, tagPublicSubkey, tagUserAttribute:
			if fingerprint == "" {
				return nil, "", errors.New("it does not begin with a public key")
			}
		default:
			return nil, "", fmt.Errorf("it holds an OpenPGP packet of type %d, which is no part of a public key", tag)
		}
		rest = after
	}
	if fingerprint == "" {
		return nil, "", errors.New("it is empty")
	}
	return data, fingerprint, nil
}

var errPacket = errors.New("it is not an OpenPGP key")

// nextPacket returns the first packet and the rest (RFC 9580, section 4.2). Partial and
// indeterminate lengths are refused, because they are for data and never for keys.
func nextPacket(b []byte) (tag byte, body, rest []byte, err error) {
	if len(b) < 2 || b[0]&0x80 == 0 {
		return 0, nil, nil, errPacket
	}
	head, size := 2, uint64(b[1])
	var wide int // bytes of a length that is a plain number
	if b[0]&0x40 != 0 {
		tag = b[0] & 0x3f
		switch {
		case b[1] == 255:
			head, wide = 2, 4
		case b[1] >= 224 || b[1] >= 192 && len(b) < 3:
			return 0, nil, nil, errPacket
		case b[1] >= 192:
			head, size = 3, uint64(b[1]-192)<<8+uint64(b[2])+192
		}
	} else {
		tag = b[0] >> 2 & 0xf
		if b[0]&3 == 3 {
			return 0, nil, nil, errPacket
		}
		head, wide = 1, 1<<(b[0]&3)
	}
	if wide > 0 {
		if len(b) < head+wide {
			return 0, nil, nil, errPacket
		}
		size = 0
		for _, c := range b[head : head+wide] {
			size = size<<8 | uint64(c)
		}
		head += wide
	}
	if uint64(len(b)-head) < size {
		return 0, nil, nil, errPacket
	}
	end := head + int(size)
	return tag, b[head:end], b[end:], nil
}

// v4Fingerprint returns the SHA-1 over 0x99, the length and the packet (RFC 9580, section
// 5.5.4.2). Keys of version 4 are identified by SHA-1.
func v4Fingerprint(body []byte) (string, error) {
	if len(body) < 6 || len(body) > 0xffff {
		return "", errPacket
	}
	if body[0] != 4 {
		return "", fmt.Errorf("it is an OpenPGP key of version %d, want 4", body[0])
	}
	h := sha1.New()
	h.Write(binary.BigEndian.AppendUint16([]byte{0x99}, uint16(len(body))))
	h.Write(body)
	return fmt.Sprintf("%X", h.Sum(nil)), nil
}
