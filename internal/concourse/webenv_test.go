package concourse

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// webConfig is a web with everything.
func webConfig() WebConfig {
	return WebConfig{
		Paths: HomeWebFiles(), BindPort: 8080, LogLevel: "info", ExternalURL: "https://ci.example.com",
		PeerAddress: "10.0.0.2", ClusterName: "ci", TLSPort: 443,
		AdminPassword: `p"a$s\w'ö rd`,
		WebOptions:    WebOptions{InitialAdminUsername: "admin", MainTeamLocalUser: "admin,eve", ExtraLocalUsers: "eve:secret", EnableMetrics: true},
		Database: WebDatabase{Host: "10.0.0.3", Port: 5432, User: "relation-7", Password: "se cret#1", Name: "concourse",
			SSLMode: "verify-ca", CAFile: HomeWebFiles().DatabaseCA()},
		EncryptionKey: "0123456789abcdef", OldEncryptionKey: "fedcba9876543210",
		Options:    map[string]string{"CONCOURSE_LDAP_HOST": "ldap:636", "CONCOURSE_SECRET_CACHE_ENABLED": "true"},
		Vault:      map[string]string{"CONCOURSE_VAULT_URL": "https://10.0.0.4:8200", "CONCOURSE_VAULT_AUTH_PARAM": "role_id:a,secret_id:b"},
		OptionKeys: []string{"CONCOURSE_LDAP_HOST", "CONCOURSE_LDAP_BIND_PW", "CONCOURSE_LDAP_USER_SEARCH_ID_ATTR", "CONCOURSE_LDAP_USER_SEARCH_EMAIL_ATTR", "CONCOURSE_SECRET_CACHE_ENABLED", "CONCOURSE_GC_FAILED_GRACE_PERIOD"},
		Proxy:      resource.Proxies{HTTP: "http://proxy:3128", HTTPS: "http://u:p@proxy:3128", No: "10.0.0.0/8"},
	}
}

func TestWebEnvironment(t *testing.T) {
	f, err := webConfig().File(nil)
	require.NoError(t, err)
	require.Equal(t, "/var/lib/concourse/config.env", f.Path)
	hosttest.Golden(t, "testdata/config.env", string(f.Data))
}

// What systemd reads of the file is what was meant (D28).
func TestWebEnvironmentIsReadAsMeant_D28(t *testing.T) {
	c := webConfig()
	f, err := c.File([]byte("CONCOURSE_X_FRAME_OPTIONS=allow\n"))
	require.NoError(t, err)
	got := systemdReads(string(f.Data))
	require.Equal(t, "allow", got["CONCOURSE_X_FRAME_OPTIONS"])
	delete(got, "CONCOURSE_X_FRAME_OPTIONS")
	require.Equal(t, c.Env(), got)
	require.Equal(t, `admin:p"a$s\w'ö rd,eve:secret`, got["CONCOURSE_ADD_LOCAL_USER"])

	c.Options["CONCOURSE_LDAP_HOST"] = "a\nCONCOURSE_ADD_LOCAL_USER=me:me"
	_, err = c.File(nil)
	require.EqualError(t, err, "cannot write CONCOURSE_LDAP_HOST: the value holds a line end or another control character")
}

// D26: whatever was set and is not any more is removed from the file, what the predecessor
// left too; the operator's own stay.
func TestEveryWebKeyIsTakenBackWhenCleared_D26(t *testing.T) {
	full := webConfig()
	f, err := full.File([]byte("CONCOURSE_DEFAULT_TASK_CPU_LIMIT=512\nCONCOURSE_LDAP_BIND_PW=gone\nCONCOURSE_TSA_PUBLIC_KEY=/x\n" +
		"CONCOURSE_GC_FAILED_GRACE_PERIOD=5m\nCONCOURSE_ENABLE_METRICS=true\n"))
	require.NoError(t, err)
	require.NotContains(t, string(f.Data), "LDAP_BIND_PW", "an option that is not set")
	require.NotContains(t, string(f.Data), "TSA_PUBLIC_KEY")
	least := WebConfig{Paths: full.Paths, BindPort: 8080, LogLevel: "info", OptionKeys: full.OptionKeys}
	f, err = least.File(f.Data)
	require.NoError(t, err)
	clean, err := least.File([]byte("CONCOURSE_DEFAULT_TASK_CPU_LIMIT=512\n"))
	require.NoError(t, err)
	require.Equal(t, string(clean.Data), string(f.Data))
}

// D35: no one but root reads the file, at any moment.
func TestWebEnvironmentIsRootsAlone_D35(t *testing.T) {
	h := hosttest.Real(t)
	hosttest.Put(t, h.Root, HomeWebFiles().Env(), "CONCOURSE_BIND_PORT=1\n") // 0644
	f, err := webConfig().File(nil)
	require.NoError(t, err)
	require.Equal(t, "root", f.Owner)
	require.NoError(t, resourcetest.Apply(t, h, f))
	st, err := h.Stat(f.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	require.Empty(t, resourcetest.Ops(t, h, f))
}

// D16: the same facts give the same bytes.
func TestSameFactsRestartNoWeb_D16(t *testing.T) {
	first, err := webConfig().File(nil)
	require.NoError(t, err)
	for range 20 { // maps have no order
		again, err := webConfig().File(first.Data)
		require.NoError(t, err)
		require.Equal(t, string(first.Data), string(again.Data))
	}
}

// D40: TLS and the database's are there when they are asked for, and nothing
// of them when not.
func TestTLSIsAllOrNothing_D40(t *testing.T) {
	env := webConfig().Env()
	require.Equal(t, "443", env["CONCOURSE_TLS_BIND_PORT"])
	require.Equal(t, "/var/lib/concourse/keys/tls.crt", env["CONCOURSE_TLS_CERT"])
	require.Equal(t, "/var/lib/concourse/keys/tls.key", env["CONCOURSE_TLS_KEY"])
	require.Equal(t, "verify-ca", env["CONCOURSE_POSTGRES_SSLMODE"])
	require.Equal(t, "/var/lib/concourse/keys/database-ca.pem", env["CONCOURSE_POSTGRES_CA_CERT"])
	c := webConfig()
	c.TLSPort, c.Database.CAFile, c.Database.SSLMode = 0, "", "disable"
	for key := range c.Env() {
		require.NotContains(t, key, "_TLS_")
	}
	require.NotContains(t, c.Env(), "CONCOURSE_POSTGRES_CA_CERT")
}

func TestLocalUsers_D24(t *testing.T) {
	for name, c := range map[string]struct{ user, password, extra, main, users, team string }{
		"admin":               {"admin", "x", "", "", "admin:x", "admin"},
		"more":                {"root", "x", "eve:y,bob:z", "root,eve", "root:x,eve:y,bob:z", "root,eve"},
		"no password yet":     {"admin", "", "eve:y", "", "eve:y", "admin"},
		"no password, no one": {"admin", "", "", "", "", "admin"},
	} {
		env := WebConfig{AdminPassword: c.password,
			WebOptions: WebOptions{InitialAdminUsername: c.user, ExtraLocalUsers: c.extra, MainTeamLocalUser: c.main}}.Env()
		require.Equal(t, c.users, env["CONCOURSE_ADD_LOCAL_USER"], name)
		require.Equal(t, c.team, env["CONCOURSE_MAIN_TEAM_LOCAL_USER"], name)
	}
}

// A proxy is never between the webs and their workers: Concourse asks workers
// by HTTP at the webs' own addresses.
func TestWebsReachWorkersWithoutTheProxy(t *testing.T) {
	for name, c := range map[string]struct {
		proxy resource.Proxies
		peers []string
		want  string
	}{
		"no proxy":       {resource.Proxies{No: "a"}, []string{"10.0.0.3"}, "a"},
		"alone":          {resource.Proxies{HTTP: "http://p"}, nil, "10.0.0.2"},
		"among others":   {resource.Proxies{HTTPS: "http://p", No: "a, .b"}, []string{"10.0.0.4", "10.0.0.3"}, "a,.b,10.0.0.2,10.0.0.3,10.0.0.4"},
		"said already":   {resource.Proxies{HTTP: "http://p", No: "10.0.0.3,10.0.0.2"}, []string{"10.0.0.3"}, "10.0.0.3,10.0.0.2"},
		"IPv6 and empty": {resource.Proxies{HTTP: "http://p", No: ","}, []string{"fd00::3", ""}, "10.0.0.2,fd00::3"},
	} {
		require.Equal(t, c.want, WebConfig{PeerAddress: "10.0.0.2", Peers: c.peers, Proxy: c.proxy}.Env()["no_proxy"], name)
	}
}

// The charm's own come first, then Vault's, then the options'.
func TestOptionsDoNotReplaceWhatIsTheCharms(t *testing.T) {
	c := webConfig()
	c.Options = map[string]string{"CONCOURSE_TSA_HOST_KEY": "/etc/shadow", "CONCOURSE_VAULT_URL": "http://option", "CONCOURSE_OPA_URL": ""}
	env := c.Env()
	require.Equal(t, c.Paths.TSAHostKey(), env["CONCOURSE_TSA_HOST_KEY"])
	require.Equal(t, "https://10.0.0.4:8200", env["CONCOURSE_VAULT_URL"])
	require.NotContains(t, env, "CONCOURSE_OPA_URL")
}

// OwnWebKeys returns the variables that only the charm may set on a web.
func OwnWebKeys() (keys []string) {
	for _, v := range webVariables {
		if v.value != nil {
			keys = append(keys, v.key)
		}
	}
	return keys
}

// WebKeys returns the variables of a web with everything that package concourse sets.
func WebKeys() []string {
	return slices.Concat(OwnWebKeys(), slices.Collect(maps.Keys(webConfig().Env())),
		slices.Collect(maps.Keys(WebConfig{LDAP: LDAP{Host: "ldap:636"}}.Env())))
}

// KnownVariables returns the variables of a command of Concourse.
var KnownVariables = variables

func FuzzWebEnv(f *testing.F) {
	f.Add("CONCOURSE_BIND_PORT=1\n# c\nA='b\nc'\n", "p\"a", "x y")
	f.Fuzz(func(t *testing.T, existing, password, url string) {
		c := webConfig()
		c.AdminPassword, c.ExternalURL = password, url
		file, err := c.File([]byte(existing))
		if err != nil {
			return
		}
		got := systemdReads(string(file.Data))
		for key, value := range c.Env() {
			if got[key] != value {
				t.Fatalf("%s: %q, want %q", key, got[key], value)
			}
		}
		again, err := c.File(file.Data)
		if err != nil || string(again.Data) != string(file.Data) {
			t.Fatal("a second run writes something else")
		}
	})
}
