package hosttest

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the real program writes is, byte for byte, what Key makes of the same key.
func TestKeysAreFromGenerateKey(t *testing.T) {
	release := os.Getenv("CONCOURSE_RELEASE")
	if release == "" {
		t.Skip("CONCOURSE_RELEASE names no folder of an unpacked Concourse release")
	}
	for kind, public := range map[string]bool{"rsa": false, "ssh": true} {
		file := filepath.Join(t.TempDir(), "key")
		out, err := exec.Command(filepath.Join(release, "bin/concourse"), "generate-key", "-t", kind, "-b", "2048", "-f", file).CombinedOutput()
		require.NoError(t, err, string(out))
		private, err := os.ReadFile(file)
		require.NoError(t, err)
		block, rest := pem.Decode(private)
		require.NotNil(t, block)
		require.Empty(t, rest)
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		require.NoError(t, err)
		wantPrivate, wantPublic := keyFiles(key)
		require.Equal(t, wantPrivate, string(private))
		require.Equal(t, public, exists(file+".pub"))
		if public {
			line, err := os.ReadFile(file + ".pub")
			require.NoError(t, err)
			require.Equal(t, wantPublic, string(line))
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
