package jobexporter

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
)

// The password was on a command line, and the token in a file of root's.
func TestD39CredentialsFileIsForItsOwnerAlone(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.poll(t))
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o660: false, 0o602: false, 0o610: false, 0o777: false} {
		require.NoError(t, os.Chmod(b.file, mode))
		err := b.poll(t)
		if ok {
			require.NoError(t, err, mode)
			continue
		}
		require.EqualError(t, err, fmt.Sprintf("cannot use credentials file %s: its mode is %#o, so others than its owner may use it; run: chmod 0600 %s", b.file, uint32(mode), b.file))
		require.Nil(t, b.client, "what was read before is not used on")
	}
}

func TestCredentialsFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	b := newBed(t)
	require.NoError(t, os.Chown(b.file, 12345, 0))
	require.ErrorContains(t, b.poll(t), "it belongs to user 12345, and this program runs as user 0")
}

func TestInvalidCredentialsAreRefused(t *testing.T) {
	b := newBed(t)
	good, err := os.ReadFile(b.file)
	require.NoError(t, err)
	for want, make := range map[string]func(){
		"no such file or directory":       func() {},
		"it is not a regular file":        func() { require.NoError(t, unix.Mkfifo(b.file, 0o600)) },
		"it has more than 65536 bytes":    func() { put(t, b.file, []byte(strings.Repeat(" ", maxFile+1))) },
		"syntax error at byte 1":          func() { put(t, b.file, []byte("password=x")) },
		"too many levels of symbolic lin": func() { require.NoError(t, os.Symlink(b.file, b.file)) },
	} {
		require.NoError(t, os.RemoveAll(b.file))
		make()
		err := b.poll(t)
		require.ErrorContains(t, err, "cannot use credentials file "+b.file+": ")
		require.ErrorContains(t, err, want)
		require.Equal(t, resultCredentials, kind(err))
		require.EqualError(t, b.Ready(), "the credentials file cannot be used; see the exporter's log")
	}
	require.NoError(t, os.RemoveAll(b.file))
	put(t, b.file, good)
	require.NoError(t, b.poll(t), "it is taken as soon as it is there")
}

func TestHTTPS(t *testing.T) {
	web := atctest.NewTLS(t)
	b := bedOf(t, web)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	c := login.Credentials{URL: web.URL, Username: "admin", Password: "s3 cr&t", CAFile: ca}
	require.ErrorContains(t, b.poll(t), "certificate signed by unknown authority", "the machine's authorities do not know it")

	b.credentials(t, c)
	require.EqualError(t, b.poll(t), "cannot use ca-file "+ca+": no such file or directory")
	put(t, ca, []byte("no certificate"))
	require.EqualError(t, b.poll(t), "cannot use ca-file "+ca+": it has no PEM certificate")
	put(t, ca, certificate(web.Server))
	require.NoError(t, b.poll(t), "a new ca-file is taken without the credentials changing")

	c.ServerName = "web.example.org"
	b.credentials(t, c)
	require.ErrorContains(t, b.poll(t), "not web.example.org")
	c.ServerName = "example.com" // what httptest's certificate is for
	b.credentials(t, c)
	require.NoError(t, b.poll(t))

	c.URL = strings.Replace(web.URL, "https:", "http:", 1)
	c.CAFile, c.ServerName = "", ""
	b.credentials(t, c)
	require.Error(t, b.poll(t), "http to an https port")
}

func certificate(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
