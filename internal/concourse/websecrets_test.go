package concourse

import (
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// testSecrets are made once, with keys that are quick to make.
var testSecrets = sync.OnceValues(func() (WebSecrets, error) { return newWebSecrets(testBits) })

func secrets(t testing.TB) WebSecrets {
	t.Helper()
	s, err := testSecrets()
	require.NoError(t, err)
	return s
}

func TestWebSecretsSurviveTheWayThroughJuju(t *testing.T) {
	s := secrets(t)
	require.NotEqual(t, s.TSAHostKey, s.SessionSigningKey)
	require.Regexp(t, "^[A-Z2-7]{26}$", s.AdminPassword)
	other, err := newWebSecrets(testBits)
	require.NoError(t, err)
	require.NotEqual(t, s, other)

	content := s.Content()
	require.Len(t, content, 3)
	content["encryption-key"] = "0123456789abcdef" // belongs to the same secret
	got, err := ParseWebSecrets(content)
	require.NoError(t, err)
	require.Equal(t, s, got)
	for k, v := range content {
		content[k] = strings.TrimSuffix(v, "\n")
	}
	got, err = ParseWebSecrets(content)
	require.NoError(t, err)
	require.Equal(t, s, got, "whatever ends the texts")
}

// D24: the only password is in the secret; a default one never exists.
func TestWebSecretsThatAreOfNoUseAreRefused_D24(t *testing.T) {
	s := secrets(t)
	for name, c := range map[string]struct{ key, value, want string }{
		"no host key":        {"tsa-host-key", "", "tsa-host-key: it is not a private key"},
		"no session key":     {"session-signing-key", "", "session-signing-key: it is not a private key"},
		"a public key":       {"tsa-host-key", "ssh-rsa AAAA", "tsa-host-key: it is not a private key"},
		"no password":        {"admin-password", "", "admin-password: it is empty"},
		"a password in two":  {"admin-password", "hunter2,b", "admin-password: it holds a comma"},
		"a password on two":  {"admin-password", "hunter2\nb", "admin-password: it holds a line end"},
		"a password of junk": {"admin-password", "hunter2\xff", "admin-password: it holds"},
	} {
		content := s.Content()
		content[c.key] = c.value
		got, err := ParseWebSecrets(content)
		require.ErrorContains(t, err, "cannot use the secret of the web: "+c.want, name)
		require.NotContains(t, err.Error(), "hunter2", name)
		require.NotContains(t, err.Error(), "BEGIN", name)
		require.Zero(t, got, name)
	}
}

// D3: any unit of the application writes the same keys, and only their public
// half is for others to read.
func TestAllWebsHaveTheSameKeys_D3(t *testing.T) {
	s := secrets(t)
	public, err := s.HostPublicKey()
	require.NoError(t, err)
	require.NotContains(t, public, "\n")
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey([]byte(s.TSAHostKey))
	require.NoError(t, err)
	require.Equal(t, signer.PublicKey().Marshal(), key.Marshal())

	p := HomeWebFiles()
	want, err := p.Keys(s)
	require.NoError(t, err)
	files := map[string]string{}
	for _, r := range want {
		f := r.(resource.File)
		require.Equal(t, "concourse", f.Owner)
		mode := os.FileMode(0o600)
		if strings.HasSuffix(f.Path, ".pub") {
			mode = 0o644
		}
		require.Equal(t, mode, f.Mode, f.Path)
		files[f.Path] = string(f.Data)
	}
	require.Equal(t, map[string]string{
		"/var/lib/concourse/keys/tsa_host_key":        s.TSAHostKey,
		"/var/lib/concourse/keys/tsa_host_key.pub":    public + "\n",
		"/var/lib/concourse/keys/session_signing_key": s.SessionSigningKey,
	}, files)
	_, err = p.Keys(WebSecrets{})
	require.Error(t, err, "without secrets there are no files")
}

func FuzzParseWebSecrets(f *testing.F) {
	s, err := testSecrets()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.TSAHostKey, s.SessionSigningKey, s.AdminPassword)
	f.Add("", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", "a:b")
	f.Fuzz(func(t *testing.T, host, session, password string) {
		s, err := ParseWebSecrets(map[string]string{"tsa-host-key": host, "session-signing-key": session, "admin-password": password})
		if err != nil {
			return
		}
		again, err := ParseWebSecrets(maps.Clone(s.Content()))
		if err != nil || again != s {
			t.Fatal(again, err)
		}
		c := webConfig()
		c.AdminPassword = s.AdminPassword
		if _, err := c.File(nil); err != nil {
			t.Fatal("a password that was taken can't be written: ", err)
		}
		if _, err := s.HostPublicKey(); err != nil {
			t.Fatal(err)
		}
	})
}
