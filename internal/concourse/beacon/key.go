package beacon

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"

	"golang.org/x/crypto/ssh"
)

// WorkerKeyBits is the size of a new worker key.
const WorkerKeyBits = 3072

// NewKey returns a new private key as PKCS#1 PEM, which Concourse reads.
func NewKey(bits int) ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

// PublicLine derives the OpenSSH line of a private key, without comment and line end. A key
// that Concourse can't use has a problem, which quotes nothing of the key.
func PublicLine(private []byte) (line, problem string) {
	key, problem := parseKey(private)
	if problem != "" {
		return "", problem
	}
	public, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		return "", err.Error()
	}
	return string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(public))), ""
}

// Signer returns a private key for a login. A problem quotes nothing of the key.
func Signer(private []byte) (s ssh.Signer, problem string) {
	key, problem := parseKey(private)
	if problem != "" {
		return nil, problem
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err.Error()
	}
	return s, ""
}

// parseKey reads a private key as Concourse does (flag/private_key.go): the first PEM
// block, as PKCS#1 or PKCS#8, whatever its label. Concourse's generate-key writes PKCS#1
// with PKCS#8's label. A problem quotes nothing of the key.
func parseKey(private []byte) (key *rsa.PrivateKey, problem string) {
	block, _ := pem.Decode(private)
	if block == nil {
		return nil, "it is not a private key in PEM form without a passphrase"
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, ""
	}
	if any, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if key, ok := any.(*rsa.PrivateKey); ok {
			return key, ""
		}
		return nil, notRSA
	}
	if _, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return nil, notRSA
	}
	return nil, "it is not a private key in the form PKCS#1 or PKCS#8 without a passphrase"
}

const notRSA = "it is not an RSA key, and Concourse takes no other"
