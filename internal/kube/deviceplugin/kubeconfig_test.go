package deviceplugin

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// credentialFiles writes an authority, and a certificate with its key in one file, as kubelets have it.
// The folder of the kubeconfig is the one that it returns.
func credentialFiles(t testing.TB) (dir string, a hosttest.Authority) {
	t.Helper()
	dir, a = t.TempDir(), hosttest.NewAuthority(t, "cluster")
	pair := a.Server(t, "node")
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	both := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "pki"), 0o755))
	for name, text := range map[string]string{"ca.crt": a.PEM, "pki/both.pem": both, "token": "of-the-file\n", "config": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "open.pem"), []byte(both), 0o644))
	return dir, a
}

func kubeconfigOf(cluster, user string) string {
	return "current-context: x\ncontexts: [{name: other, context: {cluster: o, user: o}}, {name: x, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {" + cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n"
}

const (
	address   = "server: 'https://10.0.0.1:6443', "
	authority = address + "certificate-authority: ca.crt"
)

func TestKubeconfigHasTheCredentials(t *testing.T) {
	dir, a := credentialFiles(t)
	both, err := os.ReadFile(dir + "/pki/both.pem")
	require.NoError(t, err)
	inline := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		text, token string
		certs       int
	}{
		"paths beside the file":  {kubeconfigOf(authority, "client-certificate: pki/both.pem, client-key: pki/both.pem"), "", 1},
		"absolute paths":         {kubeconfigOf(address+"certificate-authority: "+dir+"/ca.crt", "client-certificate: "+dir+"/pki/both.pem, client-key: "+dir+"/pki/both.pem"), "", 1},
		"data":                   {kubeconfigOf(address+"certificate-authority-data: "+inline([]byte(a.PEM)), "client-certificate-data: "+inline(both)+", client-key-data: "+inline(both)), "", 1},
		"token":                  {kubeconfigOf(authority, "token: secret"), "secret", 0},
		"file with a token":      {kubeconfigOf(authority, "tokenFile: token, token: old"), "of-the-file", 0},
		"JSON":                   {`{"current-context":"","contexts":[{"context":{}}],"clusters":[{"cluster":{"server":"https://10.0.0.1:6443/","certificate-authority":"ca.crt"}}],"users":[{"user":{"token":"secret"}}]}`, "secret", 0},
		"name of the API server": {kubeconfigOf(authority+", tls-server-name: api", "token: secret"), "secret", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decodeKubeconfig([]byte(c.text), dir+"/config")
			require.NoError(t, err)
			require.Equal(t, "https://10.0.0.1:6443", got.server)
			require.Equal(t, c.token, got.token)
			require.Len(t, got.tls.Certificates, c.certs)
			require.False(t, got.tls.InsecureSkipVerify)
			require.NotNil(t, got.tls.RootCAs)
			if strings.Contains(c.text, "tls-server-name") {
				require.Equal(t, "api", got.tls.ServerName)
			}
		})
	}
}

func TestKubeconfigIsRefused(t *testing.T) {
	dir, _ := credentialFiles(t)
	for text, why := range map[string]string{
		"clusters: {": "did not find expected",
		"":            `its current-context "" lacks a cluster or a user`,
		strings.Replace(kubeconfigOf(authority, "token: s"), "current-context: x", "current-context: y", 1):     `its current-context "y" lacks a cluster or a user`,
		strings.Replace(kubeconfigOf(authority, "token: s"), "current-context: x", "current-context: other", 1): `its current-context "other" lacks a cluster or a user`,
		kubeconfigOf("server: 'http://10.0.0.1', certificate-authority: ca.crt", "token: s"):                    `server "http://10.0.0.1" is not an https URL`,
		kubeconfigOf("certificate-authority: ca.crt", "token: s"):                                               `server "" is not an https URL`,
		kubeconfigOf(address+"insecure-skip-tls-verify: true", "token: s"):                                      "it has insecure-skip-tls-verify; name a certificate-authority instead",
		kubeconfigOf("server: 'https://10.0.0.1'", "token: s"):                                                  "certificate-authority is missing",
		kubeconfigOf(address+"certificate-authority-data: '%'", "token: s"):                                     "cannot decode certificate-authority-data: illegal base64 data",
		kubeconfigOf(address+"certificate-authority: config", "token: s"):                                       "its certificate-authority has no certificate in PEM",
		kubeconfigOf(address+"certificate-authority: missing.crt", "token: s"):                                  "missing.crt: no such file",
		kubeconfigOf(authority, ""):                                                        "its user lacks a client certificate or a token",
		kubeconfigOf(authority, "exec: {command: aws}"):                                    "its user has an exec plugin, which this program does not run; use a client certificate or a token",
		kubeconfigOf(authority, "client-certificate: pki/both.pem"):                        "its user lacks a client certificate or a token",
		kubeconfigOf(authority, "client-key: pki/both.pem"):                                "client-certificate is missing",
		kubeconfigOf(authority, "client-certificate: pki/both.pem, client-key-data: QQ=="): "cannot read its client certificate: tls: ",
		kubeconfigOf(authority, "client-certificate: pki/both.pem, client-key-data: '%'"):  "cannot decode client-key-data: ",
		kubeconfigOf(authority, "client-certificate: open.pem, client-key: open.pem"):      "every user can read " + dir + "/open.pem; run: chmod 600 " + dir + "/open.pem",
		kubeconfigOf(authority, "tokenFile: missing"):                                      "missing: no such file",
	} {
		_, err := decodeKubeconfig([]byte(text), dir+"/config")
		require.ErrorContains(t, err, why, text)
	}
	require.NoError(t, os.Chmod(dir+"/config", 0o604))
	for _, user := range []string{"token: s", "client-certificate: pki/both.pem, client-key-data: QQ=="} {
		_, err := decodeKubeconfig([]byte(kubeconfigOf(authority, user)), dir+"/config")
		require.ErrorContains(t, err, "every user can read "+dir+"/config", user)
	}
	_, err := decodeKubeconfig([]byte(kubeconfigOf(authority, "client-certificate: pki/both.pem, client-key: pki/both.pem")), dir+"/config")
	require.NoError(t, err, "a file with paths alone has no secret")
}

// Whatever a kubeconfig has, an accepted one verifies the API server and has one way to log in.
func FuzzKubeconfig(f *testing.F) {
	dir, a := credentialFiles(f)
	f.Add([]byte(kubeconfigOf(authority, "token: s")))
	f.Add([]byte(kubeconfigOf(authority, "client-certificate: pki/both.pem, client-key: pki/both.pem")))
	f.Add([]byte(kubeconfigOf(address+"certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(a.PEM)), "exec: {}")))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeKubeconfig(data, dir+"/config")
		if err != nil {
			return
		}
		require.True(t, strings.HasPrefix(strings.ToLower(c.server), "https://"), c.server)
		require.False(t, c.tls.InsecureSkipVerify)
		require.NotNil(t, c.tls.RootCAs)
		require.True(t, c.token != "" || len(c.tls.Certificates) == 1)
	})
}
