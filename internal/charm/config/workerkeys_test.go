package config

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func publicKey(name string) string {
	_, public := hosttest.Key(name)
	return strings.TrimSpace(public)
}

func TestKeysOfWorkersWithoutThisCharmAreRead(t *testing.T) {
	a, b := publicKey("a"), publicKey("b")
	c, problems := Parse(map[string]any{"extra-worker-keys": "\n# Windows\nteam=ml  " + a + " RDNA4 box\n\n" + b + "\n"}, nil)
	require.Empty(t, problems)
	require.Equal(t, []WorkerKey{{"ml", a}, {"", b}}, c.Web.ExtraWorkerKeys)
	_, problems = Parse(map[string]any{"extra-worker-keys": "team=" + strings.Repeat("é", 100) + " " + a}, nil)
	require.Empty(t, problems)
	_, problems = Parse(map[string]any{"extra-worker-keys": "team=" + strings.Repeat("é", 101) + " " + a}, nil)
	require.Len(t, problems, 1)
}

func TestInvalidWorkerKeyIsRefused(t *testing.T) {
	a := publicKey("a")
	private, _ := hosttest.Key("a")
	public, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	for value, want := range map[string]string{
		"garbage":                                "line 1 is not a public key; want [team=<team>] ssh-rsa AAAA... <comment>",
		"# x\n" + a[:len(a)/2]:                   "line 2 is not a public key",
		a + "\n\n" + a + " again":                "line 3 has the key of line 1; each worker needs a different key",
		"team=ml " + a + "\n" + a:                "line 2 has the key of line 1",
		"team= " + a:                             "line 1 has no team's name after team=",
		"team=a:b " + a:                          "line 1 has no team's name after team=; want letters, digits, _, . and -",
		"team=ml":                                "line 1 is not a public key",
		`command="x" ` + a:                       "line 1 has options before its key",
		string(ssh.MarshalAuthorizedKey(key)):    "line 1 has a key of type ssh-ed25519; want RSA: concourse generate-key -t ssh -f key",
		private:                                  "the value has a private key, which others may have read",
		"ssh-rsa " + strings.Repeat("A", 20<<10): "line 1 is not a public key",
	} {
		c, problems := Parse(map[string]any{"extra-worker-keys": value}, nil)
		require.Len(t, problems, 1, value)
		require.Contains(t, problems[0].String(), want)
		require.Empty(t, c.Web.ExtraWorkerKeys)
		require.NotContains(t, problems[0].String(), "AAAA"+"B3", "no key is repeated")
	}
}

func FuzzWorkerKeys(f *testing.F) {
	f.Add("team=ml " + publicKey("a") + " x\n#\n" + publicKey("b"))
	f.Add("team=\nteam=a ssh-rsa AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := workerKeys(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for _, k := range keys {
			again, err := workerKey(k.Line)
			require.NoError(t, err)
			require.Equal(t, k.Line, again.Line)
			require.NotContains(t, k.Team, ":")
		}
	})
}
