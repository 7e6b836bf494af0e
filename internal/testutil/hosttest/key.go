package hosttest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"sync"

	"golang.org/x/crypto/ssh"
)

// keyBits is less than Concourse's 4096, which take their time.
const keyBits = 2048

var made struct {
	sync.Mutex
	keys map[string]*rsa.PrivateKey
}

// Key is one key for each name, made when it is first asked for, as the files
// that `concourse generate-key -t ssh` writes of it. With -t rsa it is the first
// one only.
func Key(name string) (private, public string) {
	made.Lock()
	defer made.Unlock()
	if made.keys[name] == nil {
		key, err := rsa.GenerateKey(rand.Reader, keyBits)
		if err != nil {
			panic(err) // only where the machine has no randomness
		}
		if made.keys == nil {
			made.keys = map[string]*rsa.PrivateKey{}
		}
		made.keys[name] = key
	}
	return keyFiles(made.keys[name])
}

// keyFiles are the private half as PKCS#1 under the label of PKCS#8, which no
// other program writes, and the public one as a line of OpenSSH's.
func keyFiles(key *rsa.PrivateKey) (private, public string) {
	half, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		panic(err) // an RSA key always has one
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		string(ssh.MarshalAuthorizedKey(half))
}
