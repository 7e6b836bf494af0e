package relation

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// line is a key from a seed, so that goldens hold.
func line(t testing.TB, seed string) string {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(seed, 32)[:32]))
	public, err := ssh.NewPublicKey(private.Public())
	require.NoError(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

func TestDatabagsOfTheWebMatchTheirReaders(t *testing.T) {
	vaultApp, vaultUnit := VaultRequest("0badcafe0badcafe0badcafe0badcafe", []string{"10.0.0.5/32", "fd00::5", "10.0.0.5", "10.0.1.7/24", "no network"})
	csr, err := CertificateRequestFor(fixedKey(t), []string{"ci.example.com", "10.0.0.5", "fd00::5"})
	require.NoError(t, err)
	for file, bag := range map[string]map[string]string{
		"postgresql-app":    DatabaseRequest(),
		"postgresql-unit":   DatabaseUnitRequest(),
		"vault-app":         vaultApp,
		"vault-unit":        vaultUnit,
		"certificates-unit": CertificateDatabag(csr),
		"tsa-unit":          TSADatabag("10.0.0.2", line(t, "w")+"\n", "8.2.5", ""),
		"flight-unit":       WorkerDatabag(line(t, "a")+"\n", "gpu-3-0badcafe", "8.3.0"),
	} {
		hosttest.Golden(t, "testdata/"+file+".golden", shown(t, bag))
	}
}

func TestTSABagNamesAPortForEveryAddress(t *testing.T) {
	for host, want := range map[string]string{"10.0.0.2": "10.0.0.2:2222", "fd00::2": "[fd00::2]:2222", "[fd00::2]": "[fd00::2]:2222",
		"10.0.0.2:2222": "10.0.0.2:2222", "[fd00::2]:22": "[fd00::2]:22", "web.lxd": "web.lxd:2222"} {
		require.Equal(t, want, TSADatabag(host, line(t, "w"), "", "")["tsa-host"], host)
	}
}

// D20: an incomplete address is not published. The hook that has the rest publishes it.
func TestD20HalfOfAnAddressIsNotPublished(t *testing.T) {
	require.Empty(t, TSADatabag("10.0.0.2", " \n", "", ""))
	require.Empty(t, TSADatabag("", line(t, "w"), "", ""))
	require.Equal(t, map[string]string{"concourse-version": "8.2.5"}, TSADatabag("", "", "8.2.5", ""))
}

func TestDatabagOfAWorkerIsReadBack(t *testing.T) {
	key, name, problems := ParseWorker(WorkerDatabag(line(t, "a")+"\n", "gpu-3-0badcafe", "8.3.0"))
	require.Empty(t, problems)
	require.Equal(t, line(t, "a"), key)
	require.Equal(t, "gpu-3-0badcafe", name)
}

func TestWorkerKeyIsExactlyOneKey(t *testing.T) {
	good := line(t, "a")
	for name, row := range map[string]struct{ value, key, problem string }{
		"missing":        {},
		"blank":          {value: " \n "},
		"key":            {value: good, key: good},
		"comment":        {value: good + " root@gpu-3", key: good},
		"spaces around":  {value: "\n " + good + "\n", key: good},
		"options":        {value: `command="/bin/sh" ` + good, problem: "without options"},
		"restriction":    {value: "restrict " + good, problem: "without options"},
		"two keys":       {value: good + "\n" + line(t, "b"), problem: "want one OpenSSH line"},
		"carriage":       {value: good + "\r" + line(t, "b"), problem: "want one OpenSSH line"},
		"NUL":            {value: good + " \x00", problem: "want one OpenSSH line"},
		"private key":    {value: "-----BEGIN RSA PRIVATE KEY-----", problem: "is not an OpenSSH public key"},
		"comment only":   {value: "# " + good, problem: "is not an OpenSSH public key"},
		"damaged":        {value: good[:40], problem: "is not an OpenSSH public key"},
		"too long":       {value: good + " " + strings.Repeat("x", 20<<10), problem: "want one OpenSSH line"},
		"short RSA":      {value: rsaLine(t, 1024), problem: "an RSA key of 1024 bits is too short, want 2048"},
		"certificate":    {value: certificateLine(t), problem: "it is a certificate, and not a key"},
		"unknown type":   {value: "ssh-none AAAAB3NzaC1yc2E=", problem: "is not an OpenSSH public key"},
		"authorized all": {value: "*", problem: "is not an OpenSSH public key"},
	} {
		t.Run(name, func(t *testing.T) {
			key, _, problems := ParseWorker(map[string]string{"worker-public-key": row.value})
			require.Equal(t, row.key, key)
			if row.problem == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.True(t, strings.HasPrefix(problems[0], "worker-public-key: "), problems[0])
			require.Contains(t, problems[0], row.problem)
		})
	}
}

func TestWorkerNameIsValidInAPath(t *testing.T) {
	for value, ok := range map[string]bool{"gpu-3": true, "a": true, "host.example_1": true, strings.Repeat("a", 255): true,
		strings.Repeat("a", 256): false, "-rf": false, "a/../b": false, "a b": false, "a\nb": false, "é": false, ".": false} {
		_, name, problems := ParseWorker(map[string]string{"worker-name": value})
		if ok {
			require.Empty(t, problems, value)
			require.Equal(t, value, name)
		} else {
			require.Len(t, problems, 1, value)
			require.Empty(t, name)
		}
	}
}

func rsaLine(t *testing.T, bits int) string {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	public, err := ssh.NewPublicKey(&key.PublicKey)
	require.NoError(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

func certificateLine(t *testing.T) string {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("c", 32)))
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	c := &ssh.Certificate{Key: signer.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"worker"}}
	require.NoError(t, c.SignCert(rand.Reader, signer))
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(c)))
}
