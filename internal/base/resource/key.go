package resource

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
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

// publicKeyBlock is the type of an armored public key.
const publicKeyBlock = "PGP PUBLIC KEY BLOCK"

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
	for packets := packet.NewOpaqueReader(bytes.NewReader(data)); ; {
		p, err := packets.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, "", errPacket
		}
		switch p.Tag {
		case tagPublicKey:
			if fingerprint != "" {
				return nil, "", errors.New("it holds more than one key")
			}
			if fingerprint, err = fingerprintOf(p); err != nil {
				return nil, "", err
			}
		case tagSignature, tagTrust, tagUserID, tagPublicSubkey, tagUserAttribute:
			if fingerprint == "" {
				return nil, "", errors.New("it does not begin with a public key")
			}
		default:
			return nil, "", fmt.Errorf("it holds an OpenPGP packet of type %d, not a part of a public key", p.Tag)
		}
	}
	if fingerprint == "" {
		return nil, "", errors.New("it is empty")
	}
	return data, fingerprint, nil
}

var errPacket = errors.New("it is not an OpenPGP key")

// fingerprintOf returns the fingerprint of a key of version 4. Bytes after the key in its
// packet are an error, because the fingerprint does not cover them.
func fingerprintOf(p *packet.OpaquePacket) (string, error) {
	if len(p.Contents) > 0 && p.Contents[0] != 4 {
		return "", fmt.Errorf("it is an OpenPGP key of version %d, want 4", p.Contents[0])
	}
	parsed, err := p.Parse()
	key, ok := parsed.(*packet.PublicKey)
	if err != nil || !ok {
		return "", errPacket
	}
	var encoded bytes.Buffer
	if err := key.Serialize(&encoded); err != nil || !bytes.HasSuffix(encoded.Bytes(), p.Contents) {
		return "", errPacket
	}
	return fmt.Sprintf("%X", key.Fingerprint), nil
}

// dearmor decodes the ASCII armor of one public key (RFC 9580, section 6.2).
func dearmor(data []byte) ([]byte, error) {
	if bytes.Count(data, []byte("-----BEGIN PGP")) != 1 {
		return nil, errors.New("it holds more than one key")
	}
	block, err := armor.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("its armor is damaged: %w", err)
	}
	if block.Type != publicKeyBlock {
		return nil, fmt.Errorf("it is a %s, not a public key", block.Type)
	}
	out, err := io.ReadAll(block.Body)
	if err != nil {
		return nil, fmt.Errorf("its armor is damaged: %w", err)
	}
	return out, nil
}
