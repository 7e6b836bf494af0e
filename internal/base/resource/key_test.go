package resource

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// oldPacket puts body into an OpenPGP packet of the old form with a two-byte length.
func oldPacket(tag byte, body string) []byte {
	return append([]byte{0x80 | tag<<2 | 1, byte(len(body) >> 8), byte(len(body))}, body...)
}

// newPacket is the new form.
func newPacket(tag byte, body string) []byte {
	head := []byte{0xc0 | tag}
	switch n := len(body); {
	case n < 192:
		head = append(head, byte(n))
	case n < 8384:
		head = append(head, byte((n-192)>>8)+192, byte(n-192))
	default:
		head = append(head, 255, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(head, body...)
}

// The key's body and fingerprint were computed apart from this program, with
// sha1sum over 99 00 33 and the body: an Ed25519 key of version 4.
const (
	tinyBody        = "\x04\x00\x00\x00\x01\x16\x09\x2b\x06\x01\x04\x01\xda\x47\x0f\x01\x01\x07\x40" + "0123456789abcdefghijklmnopqrstuv"
	tinyFingerprint = "F6D5333C3FADF92DE0D4F7B135246C7C080C4537"
)

func tinyKey() []byte {
	return bytes.Join([][]byte{oldPacket(6, tinyBody), oldPacket(13, "A <a@example.com>"), oldPacket(2, "signature"),
		oldPacket(14, "\x04subkey"), oldPacket(2, "binding")}, nil)
}

func armored(kind string, data []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "-----BEGIN %s-----\nComment: for a test\n\n", kind)
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(data)), 64) {
		fmt.Fprintf(&b, "%s\n", line)
	}
	fmt.Fprintf(&b, "-----END %s-----\n", kind)
	return b.Bytes()
}

func TestKeyIsReadArmoredAndBinary(t *testing.T) {
	huge := append(newPacket(6, tinyBody), newPacket(17, strings.Repeat("p", 9000))...)
	for name, data := range map[string][]byte{
		"binary": tinyKey(), "armored": armored("PGP PUBLIC KEY BLOCK", tinyKey()),
		"armored for Windows":        bytes.ReplaceAll(armored("PGP PUBLIC KEY BLOCK", tinyKey()), []byte("\n"), []byte("\r\n")),
		"with text before the armor": append([]byte("key of A\n\n"), armored("PGP PUBLIC KEY BLOCK", tinyKey())...),
		"new packet form":            newPacket(6, tinyBody), "with a picture": huge,
	} {
		clean, fingerprint, err := parseKey(data)
		require.NoError(t, err, name)
		require.Equal(t, tinyFingerprint, fingerprint, name)
		require.Equal(t, byte(0x80), clean[0]&0x80, "%s: the result is binary", name)
	}
}

func TestKeyThatIsRefused(t *testing.T) {
	two := append(tinyKey(), oldPacket(6, tinyBody)...)
	block := armored("PGP PUBLIC KEY BLOCK", tinyKey())
	damaged := bytes.Replace(block, []byte("\n\n"), []byte("\n\n!!!!"), 1)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":                  {nil, "it is empty"},
		"a web page":               {[]byte("<html>sign in to the network</html>"), "it is not an OpenPGP key"},
		"two keys":                 {two, "more than one key"},
		"two keys, armored":        {append(bytes.Clone(block), block...), "more than one key"},
		"a secret key":             {append(tinyKey(), oldPacket(5, tinyBody)...), "packet of type 5"},
		"a secret key alone":       {oldPacket(5, tinyBody), "packet of type 5"},
		"a signature alone":        {oldPacket(2, "x"), "does not begin with a public key"},
		"a message":                {armored("PGP MESSAGE", tinyKey()), "PGP MESSAGE, not a public key"},
		"damaged armor":            {damaged, "armor is damaged"},
		"armor without an end":     {block[:len(block)/2], "armor is damaged"},
		"more in the key's packet": {oldPacket(6, tinyBody+"more"), "not an OpenPGP key"},
		"version 6":                {oldPacket(6, "\x06"+tinyBody[1:]), "version 6, want 4"},
		"too short":                {oldPacket(6, "\x04"), "not an OpenPGP key"},
		"cut off":                  {tinyKey()[:20], "not an OpenPGP key"},
		"length past the end":      {[]byte{0xc6, 255, 255, 255, 255, 255, 1}, "not an OpenPGP key"},
		"half a length":            {[]byte{0xc6, 200}, "not an OpenPGP key"},
		"half a four-byte one":     {[]byte{0xc6, 255, 0, 0}, "not an OpenPGP key"},
		"partial length":           {[]byte{0xc6, 224, 1, 2, 3}, "not an OpenPGP key"},
		"rubbish behind the key":   {append(tinyKey(), "rubbish"...), "not an OpenPGP key"},
	} {
		_, _, err := parseKey(c.data)
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestFingerprintIsWhatGPGPrints(t *testing.T) {
	gpg, err := exec.LookPath("gpg")
	if err != nil {
		t.Skip("gpg is not installed")
	}
	for _, kind := range []string{"ed25519", "rsa2048"} {
		home := t.TempDir()
		run := func(args ...string) string {
			out, err := exec.Command(gpg, append([]string{"--homedir", home, "--batch", "--quiet"}, args...)...).Output()
			require.NoError(t, err)
			return string(out)
		}
		t.Cleanup(func() { exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
		run("--passphrase", "", "--quick-gen-key", "A <a@example.com>", kind, "sign", "never")
		want := ""
		for line := range strings.Lines(run("--list-keys", "--with-colons")) {
			if f := strings.Split(line, ":"); f[0] == "fpr" && want == "" {
				want = f[9]
			}
		}
		binary := run("--export")
		for _, data := range []string{binary, run("--armor", "--export")} {
			clean, got, err := parseKey([]byte(data))
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, binary, string(clean))
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add(tinyKey())
	f.Add(armored("PGP PUBLIC KEY BLOCK", tinyKey()))
	f.Add(newPacket(6, tinyBody+strings.Repeat("x", 300)))
	f.Add([]byte{0xc6, 255, 255, 255, 255, 255})
	f.Add([]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n" + base64.StdEncoding.EncodeToString(tinyKey()) + "\n-----END PGP PUBLIC KEY BLOCK-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		clean, fingerprint, err := parseKey(data)
		if err != nil {
			return
		}
		require.Len(t, fingerprint, 40)
		again, same, err := parseKey(clean)
		require.NoError(t, err, "what was accepted is accepted again")
		require.Equal(t, clean, again)
		require.Equal(t, fingerprint, same)
	})
}
