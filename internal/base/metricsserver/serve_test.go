package metricsserver

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver/watchdog"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// stuck is when a test gives up; no test waits for it otherwise.
const stuck = time.Minute

// site is a server with a web config file in its own folder.
type site struct {
	dir, address string
	logs         *hosttest.Buffer
}

func (s site) put(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(s.dir, name)
	require.NoError(t, os.WriteFile(file+"~", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+"~", file))
}

// users are the config's lines of a user, and his password.
func users(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	return fmt.Sprintf("basic_auth_users: {prometheus: %q}\n", hash)
}

const withTLS = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"

// certify makes a certificate, and who trusts it alone.
func (s site) certify(t *testing.T) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.put(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	s.put(t, "cert.pem", string(cert))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(cert))
	return pool
}

// listening is a server that has the config file, or why none exists.
func (s site) listening(t *testing.T) (*Server, error) {
	t.Helper()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := Declare(fs, 0)
	require.NoError(t, fs.Parse([]string{"--web.listen-address=127.0.0.1:0", "--web.config.file=" + filepath.Join(s.dir, "web.yml")}))
	server := &Server{Logs: log.New(s.logs, "", 0), flags: f}
	return server, server.Listen()
}

func newSite(t *testing.T) site { return site{dir: t.TempDir(), logs: &hosttest.Buffer{}} }

// bulkPath has an answer that no kernel keeps for a client that does not read.
const bulkPath = "/bulk"

var bulk = make([]byte, 16<<20)

// serve serves until the test ends.
func (s *site) serve(t *testing.T) {
	t.Helper()
	mux := NewMux("test")
	mux.HandleFunc("GET "+bulkPath, func(w http.ResponseWriter, _ *http.Request) { w.Write(bulk) })
	server, err := s.listening(t)
	require.NoError(t, err)
	s.address = server.listener.Addr().String()
	stop, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- server.Serve(stop, mux) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
		require.NotContains(t, s.logs.String(), "HTTP request to an HTTPS server")
	})
}

// get is the status of an answer to a new connection.
func (s site) get(t *testing.T, trust *x509.CertPool, password string) (int, error) {
	t.Helper()
	scheme := "http"
	if trust != nil {
		scheme = "https"
	}
	r, err := http.NewRequest("GET", scheme+"://"+s.address+healthPath, nil)
	require.NoError(t, err)
	if password != "" {
		r.SetBasicAuth("prometheus", password)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	resp, err := (&http.Client{Transport: transport, Timeout: stuck}).Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	require.Equal(t, 1, resp.ProtoMajor, "one request at a time on a connection")
	return resp.StatusCode, nil
}

func TestTLSAndPasswordsAreFromTheFileAtAnyTime(t *testing.T) {
	s := newSite(t)
	trust := s.certify(t)
	s.put(t, "web.yml", withTLS+users(t, "first"))
	s.serve(t)
	answers := func(trust *x509.CertPool, password string, want int) {
		t.Helper()
		code, err := s.get(t, trust, password)
		require.NoError(t, err)
		require.Equal(t, want, code)
	}
	answers(trust, "first", http.StatusOK)
	answers(trust, "", http.StatusUnauthorized)
	answers(trust, "wrong", http.StatusUnauthorized)
	answers(nil, "first", http.StatusBadRequest)
	require.NoError(t, watchdog.Answers(s.address, healthPath)(stuck))

	s.put(t, "web.yml", withTLS+users(t, "second"))
	answers(trust, "second", http.StatusOK)
	answers(trust, "first", http.StatusUnauthorized)

	renewed := s.certify(t)
	answers(renewed, "second", http.StatusOK)
	_, err := s.get(t, trust, "second")
	require.ErrorContains(t, err, "certificate")
}

// It would be started again, which fails as long as the file is wrong.
func TestFileThatGoesWrongEndsNoProgram(t *testing.T) {
	s := newSite(t)
	s.put(t, "web.yml", users(t, "first"))
	s.serve(t)
	answers := func(password string, want int) {
		t.Helper()
		code, err := s.get(t, nil, password)
		require.NoError(t, err)
		require.Equal(t, want, code)
		require.NoError(t, watchdog.Answers(s.address, healthPath)(stuck))
	}
	answers("first", http.StatusOK)
	s.put(t, "web.yml", "basic_auth_users: [")
	answers("first", http.StatusInternalServerError)
	require.Contains(t, s.logs.String(), "did not find expected node content")
	s.put(t, "web.yml", users(t, "second"))
	answers("second", http.StatusOK)
}

// connect opens a connection, with TLS if trust is set.
func (s site) connect(t *testing.T, trust *x509.CertPool) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.address)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(stuck)))
	if trust != nil {
		secure := tls.Client(c, &tls.Config{RootCAs: trust, ServerName: "127.0.0.1"})
		require.NoError(t, secure.Handshake())
		return secure
	}
	return c
}

func request(t *testing.T, c net.Conn, path string) {
	t.Helper()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path)
	require.NoError(t, err)
}

// A reverse proxy has a connection for each of its users.
func TestProxyIsAClientWithManyConnections(t *testing.T) {
	s := newSite(t)
	s.put(t, "web.yml", "")
	s.serve(t)
	var all []net.Conn
	for range 144 {
		all = append(all, s.connect(t, nil))
	}
	for range 2 {
		for _, c := range all {
			request(t, c, healthPath)
		}
		for i, c := range all {
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err, i)
			require.Equal(t, http.StatusOK, r.StatusCode)
			io.Copy(io.Discard, r.Body)
		}
	}
}

func TestUnreadAnswersOfAClientAreLimited(t *testing.T) {
	for name, config := range map[string]string{"without TLS": "", "with TLS": withTLS} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			trust := s.certify(t)
			s.put(t, "web.yml", config)
			s.serve(t)
			if config == "" {
				trust = nil
			}
			var all []net.Conn
			for range unreadAnswers.client + 1 {
				c := s.connect(t, trust)
				request(t, c, bulkPath)
				_, err := io.CopyN(io.Discard, c, 2*sendBuffer)
				require.NoError(t, err)
				all = append(all, c)
			}
			for i, c := range all {
				_, err := io.CopyN(io.Discard, c, int64(len(bulk))-2*sendBuffer)
				require.Equal(t, i == 0, err != nil, "%d: %v", i, err)
			}
		})
	}
}

func TestWrongWebConfigFileIsAnErrorAtTheStart(t *testing.T) {
	for name, c := range map[string]struct{ config, says string }{
		"missing":                        {"", "no such file or directory"},
		"no YAML":                        {"[", "yaml: "},
		"an unknown key":                 {"tls_config: {}\nusers: {}\n", "line 1: field tls_config not found in type web.Config line 2: field users not found"},
		"a certificate without its key":  {"tls_server_config: {cert_file: cert.pem}\n", "missing one of key or key_file"},
		"a certificate that is not here": {"tls_server_config: {cert_file: other.pem, key_file: key.pem}\n", "other.pem: no such file or directory"},
		"a certificate that is none":     {"tls_server_config: {cert_file: key.pem, key_file: key.pem}\n", "failed to load X509KeyPair"},
		"a password in clear":            {"basic_auth_users: {prometheus: geheim}\n", "hashedSecret too short"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.certify(t)
			if c.config != "" {
				s.put(t, "web.yml", c.config)
			}
			_, err := s.listening(t)
			require.ErrorContains(t, err, "cannot use --web.config.file "+filepath.Join(s.dir, "web.yml")+": ")
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "; https://prometheus.io/docs/")
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "geheim")
		})
	}
}
