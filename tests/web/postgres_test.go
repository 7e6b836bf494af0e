//go:build e2e

package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// certificate makes a self-signed one for 127.0.0.1.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// postgres is a server that takes TLS connections with a password only.
type postgres struct {
	t    *testing.T
	home string
	db   concourse.WebDatabase
	ca   []byte
}

// folder is one that other users may pass through.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "web-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func startPostgres(t *testing.T) *postgres {
	t.Helper()
	releaseDir(t) // without one there is nothing to start it for
	p := &postgres{t: t, home: filepath.Join(folder(t), "pg")}
	p.db = concourse.WebDatabase{Host: "127.0.0.1", Port: 5433, User: "relation-7", Password: `a b"c\d$e#%,`, Name: "concourse", SSLMode: "verify-full"}
	account, err := user.Lookup("postgres")
	require.NoError(t, err)
	uid, err := strconv.Atoi(account.Uid)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(p.home, 0o700))
	require.NoError(t, os.Chown(p.home, uid, -1))
	p.as("initdb", "-D", p.home, "-A", "trust", "-U", "postgres", "--no-sync")
	cert, key := certificate(t)
	p.ca = cert
	for name, data := range map[string]string{"server.crt": string(cert), "server.key": string(key),
		"pg_hba.conf": "local all postgres trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"} {
		file := filepath.Join(p.home, name)
		require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
		require.NoError(t, os.Chown(file, uid, -1))
	}
	server := exec.Command("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL",
		filepath.Join(postgresBin(), "postgres"), "-D", p.home, "-p", "5433", "-k", p.home, "-c", "listen_addresses=127.0.0.1",
		"-c", "ssl=on", "-c", "fsync=off", "-c", "max_connections=150")
	said := &strings.Builder{}
	server.Stderr = said
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Kill())
		server.Wait() // it was killed
		if t.Failed() {
			t.Log(said)
		}
	})
	require.Eventually(t, func() bool { return p.try("select 1") == nil }, patience, tick)
	p.sql(`create role "relation-7" login password '` + p.db.Password + `'`)
	p.sql(`create database concourse owner "relation-7"`)
	return p
}

func (p *postgres) as(program string, args ...string) string {
	p.t.Helper()
	out, err := p.command(program, args...).CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func (p *postgres) command(program string, args ...string) *exec.Cmd {
	argv := append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups", filepath.Join(postgresBin(), program)}, args...)
	c := exec.Command("setpriv", argv...)
	c.Dir = "/"
	return c
}

func (p *postgres) psql(database, text string) *exec.Cmd {
	return p.command("psql", "-h", p.home, "-p", "5433", "-U", "postgres", "-d", database, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", text)
}

func (p *postgres) try(text string) error { return p.psql("postgres", text).Run() }

// sql runs a statement as the server's owner and returns what it prints.
func (p *postgres) sql(text string) string {
	p.t.Helper()
	out, err := p.psql("postgres", text).CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// in is sql in Concourse's own database.
func (p *postgres) in(text string) string {
	p.t.Helper()
	out, err := p.psql("concourse", text).CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}
