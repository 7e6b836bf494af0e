package concourse

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// testBits keeps the tests quick; it is the least that crypto/rsa makes.
const testBits = 1024

func TestWorkerKeyIsMadeOnceInConcoursesForm(t *testing.T) {
	h, k := hosttest.Real(t), Key{Path: WorkerKey, Bits: testBits}
	require.NoError(t, resourcetest.Apply(t, h, k))

	private, err := h.ReadFile(WorkerKey)
	require.NoError(t, err)
	block, rest := pem.Decode(private)
	require.Empty(t, rest)
	require.Equal(t, "RSA PRIVATE KEY", block.Type)
	_, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	require.NoError(t, err)
	for p, mode := range map[string]os.FileMode{WorkerKey: 0o600, WorkerKeyPublic: 0o644} {
		st, err := h.Stat(p)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode())
	}
	public, err := h.ReadFile(WorkerKeyPublic)
	require.NoError(t, err)
	require.Regexp(t, "^ssh-rsa AAAA[^ \n]+\n$", string(public))
	key, _, _, _, err := ssh.ParseAuthorizedKey(public)
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey(private)
	require.NoError(t, err)
	require.Equal(t, signer.PublicKey().Marshal(), key.Marshal())
	require.Empty(t, resourcetest.Ops(t, h, k))
}

// D2: whatever of the pair is missing, any hook makes it good.
func TestWorkerKeyIsCompletedAnyTime_D2(t *testing.T) {
	h, k := hosttest.Real(t), Key{Path: WorkerKey, Bits: testBits}
	require.NoError(t, resourcetest.Apply(t, h, k))
	private, err := h.ReadFile(WorkerKey)
	require.NoError(t, err)
	for name, harm := range map[string]func(){
		"public half missing":      func() { require.NoError(t, h.Remove(WorkerKeyPublic)) },
		"public half of other key": func() { hosttest.Put(t, h.Root, WorkerKeyPublic, "ssh-rsa AAAA other") },
		"private half readable":    func() { require.NoError(t, os.Chmod(h.Path(WorkerKey), 0o644)) },
	} {
		harm()
		require.Len(t, resourcetest.Ops(t, h, k), 1, name)
		require.NoError(t, resourcetest.Apply(t, h, k))
		require.Empty(t, resourcetest.Ops(t, h, k), name)
		kept, err := h.ReadFile(WorkerKey)
		require.NoError(t, err)
		require.Equal(t, private, kept, name)
		st, err := h.Stat(WorkerKey)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), st.Mode(), name)
	}
	require.NoError(t, h.Remove(WorkerKey))
	require.NoError(t, resourcetest.Apply(t, h, k), "a public half alone is no key")
	require.Empty(t, resourcetest.Ops(t, h, k))
}

func TestUnusableWorkerKeyIsReportedAndKept(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(ec)
	require.NoError(t, err)
	for content, want := range map[string]string{
		"": "not a private key in PEM form",
		"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n":   "not a private key in the form PKCS#1 or PKCS#8",
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})): "not an RSA key",
	} {
		h := hosttest.Real(t)
		hosttest.Put(t, h.Root, WorkerKey, content)
		err := resourcetest.Apply(t, h, Key{Path: WorkerKey, Bits: testBits})
		var bad *KeyError
		require.ErrorAs(t, err, &bad)
		require.Contains(t, bad.Remedy(wellknown.Commands{}).String(), want)
		require.Contains(t, bad.Remedy(wellknown.Commands{}).String(), "sudo mv "+WorkerKey+" "+WorkerKey+".broken")
		kept, rerr := h.ReadFile(WorkerKey)
		require.NoError(t, rerr)
		require.Equal(t, content, string(kept))
	}
}

// What a key is is in its bytes: generate-key's label reports PKCS#8 of PKCS#1, and
// Concourse looks at no label.
func TestKeysAreReadAsConcourseReadsThem(t *testing.T) {
	made, public := hosttest.Key("any")
	block, _ := pem.Decode([]byte(made))
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	openssh, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	other, err := x509.MarshalPKCS8PrivateKey(ed)
	require.NoError(t, err)
	text := func(label string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der}))
	}
	for name, c := range map[string]struct{ private, problem string }{
		"as generate-key writes it": {made, ""},
		"PKCS#1":                    {text("RSA PRIVATE KEY", block.Bytes), ""},
		"PKCS#8":                    {text("PRIVATE KEY", pkcs8), ""},
		"PKCS#8, label of PKCS#1":   {text("RSA PRIVATE KEY", pkcs8), ""},
		"OpenSSH's own form":        {string(pem.EncodeToMemory(openssh)), "it is not a private key in the form PKCS#1 or PKCS#8 without a passphrase"},
		"another kind of key":       {text("PRIVATE KEY", other), "it is not an RSA key, and Concourse takes no other"},
	} {
		require.Equal(t, c.problem, KeyProblem(c.private), name)
		if line, err := publicLine("k", []byte(c.private)); c.problem == "" {
			require.NoError(t, err, name)
			require.Equal(t, public, line+"\n", name)
		}
	}
}

func FuzzPublicLine(f *testing.F) {
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		line, err := publicLine("k", data)
		if err == nil && (!strings.HasPrefix(line, "ssh-rsa ") || strings.Contains(line, "\n")) {
			t.Fatal(line)
		}
	})
}
