//go:build controller

package controller

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const releasesPath = "/concourse/concourse/releases/download/"

// github serves the mirror's releases as GitHub does, for a charm that knows no
// mirror. What it returns makes a new machine take it for GitHub.
func (s *site) github(t *testing.T, m *mirror) (cloudinit string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"github.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	files := http.StripPrefix(releasesPath, http.FileServer(http.Dir(m.folder)))
	server := &http.Server{Handler: files, ErrorLog: log.New(os.Stderr, "github.com: ", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
	go server.ServeTLS(s.listen(t, "443"), "", "") // ends when it is closed
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	text := strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return fmt.Sprintf("preruncmd: [%q, %q, update-ca-certificates]\n", "echo "+gateway+" github.com >>/etc/hosts",
		"echo '"+text+"' >/usr/local/share/ca-certificates/github.crt")
}
