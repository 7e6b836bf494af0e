package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// D27: every value is checked. Each problem names its option and a valid value.
func TestD27EachInvalidValueIsNamed(t *testing.T) {
	const cr = "the value has a line end or another control character; write one line of text"
	const white = "the value has white space or a control character in it; write it without"
	const mirror = "the value is not host:port, or user:password@host:port, without https:// and without a path"
	const port = "; take another one, such as 8080, 80 or 443"
	const pair = " is not name:password; want pairs with commas between them, and no comma in a password"
	for _, c := range []struct {
		option string
		value  any
		want   string
	}{
		{"mode", "both", `"both" is not one of auto, all, web, worker`},
		{"mode", "", `"" is not one of auto, all, web, worker`},
		{"mode", "Web", `"Web" is not one of auto, all, web, worker`},
		{"version", "v8.2.5", `"v8.2.5" has a leading v; write 8.2.5`},
		{"version", "latest", `"latest" is not a version like 8.2.5; leave it empty for the one that this charm was tested with`},
		{"auto-upgrade", "yes", `yes is not true or false`},
		{"github-token", "ghp x", `the value is not a token: it has white space or characters that are not ASCII`},
		{"release-mirror", "mirror", `"mirror" is not an http or https URL`},
		{"release-sha256", "abc", `"abc" is not a SHA-256: want the 64 hex digits that sha256sum prints`},
		{"shared-storage", "nfs", `"nfs" is not one of none, lxc`},
		{"log-level", "loud", `"loud" is not one of debug, info, warn, error, fatal`},
		{"log-level", 3, `3 is not text`},
		{"no-proxy", "a b", `"a b" has white space, quotes or backslashes; want hosts with commas between them`},
		{"web-port", 0, `0 is not a whole number between 1 and 65535`},
		{"web-port", 70000.0, `70000 is not a whole number between 1 and 65535`},
		{"web-port", 80.5, `80.5 is not a whole number between 1 and 65535`},
		{"web-port", "80", `80 is not a whole number between 1 and 65535`},
		{"web-port", 2222.0, `2222 is the port for workers (TSA)` + port},
		{"web-port", 9391, `9391 is the port for Concourse's metrics` + port},
		{"web-port", 9358, `9358 is the port for the metrics of jobs` + port},
		{"web-port", 7777, `7777 is the port for a worker's containers` + port},
		{"web-port", 8888, `8888 is the port for a worker's health` + port},
		{"web-port", 9401, `9401 is the port for the metrics of GPUs` + port},
		{"web-port", 8079, `8079 is the port for Concourse's debugging of the web` + port},
		{"web-port", 65536, `65536 is not a whole number between 1 and 65535`},
		{"tls-port", 0, `0 is not a whole number between 1 and 65535`},
		{"tls-port", 65536, `65536 is not a whole number between 1 and 65535`},
		{"task-record-size", -1, `-1 is not a whole number between 0 and 1048576`},
		{"task-record-size", 1048577, `1048577 is not a whole number between 0 and 1048576`},
		{"tls-port", 2222, `2222 is the port for workers (TSA)` + port},
		{"external-url", "ci.example.com", `"ci.example.com" is not an http or https URL`},
		{"external-url", "https://a.example:99999/", `"https://a.example:99999/" is not an http or https URL`},
		{"external-url", "https://a.example:0", `"https://a.example:0" is not an http or https URL`},
		{"release-mirror", "http://mirror:65536", `"http://mirror:65536" is not an http or https URL`},
		{"external-url", "https://ci/?a=b", `"https://ci/?xxxxx" has more than a host, a port and a path; write a URL like https://ci.example.com`},
		{"external-url", "http://me:secret-9@10.0.0.9:9090", `"xxxxx@10.0.0.9:9090" has more than a host, a port and a path; write a URL like https://ci.example.com`},
		{"initial-admin-username", "a:b", `"a:b" is not a user's name: want letters and digits without white space, colons or commas`},
		{"initial-admin-username", "a,b", `"a,b" is not a user's name: want letters and digits without white space, colons or commas`},
		{"initial-admin-username", "", `"" is not a user's name: want letters and digits without white space, colons or commas`},
		{"main-team-local-user", "a,,b", `"" is not a user's name: want letters and digits without white space, colons or commas`},
		{"extra-local-users", "ann", "pair 1" + pair},
		{"extra-local-users", "ann:hunter2,hunter2", "pair 2" + pair},
		{"extra-local-users", "ann:", "pair 1" + pair},
		{"extra-local-users", "ann:hunter2,ann:hunter2", "pair 2 has the name of an earlier one"},
		{"extra-local-users", "ann:hunter2,admin:hunter2", "pair 2 has the name of initial-admin-username; the charm makes that user"},
		{"encryption-key", strings.Repeat("k", 26), "the key has 26 bytes; Concourse takes 16 or 32: openssl rand -hex 16 prints 32"},
		{"encryption-key", strings.Repeat("k", 24), "the key has 24 bytes; Concourse takes 16 or 32: openssl rand -hex 16 prints 32"},
		{"encryption-key", "0123456789abcde\x01f" + strings.Repeat("k", 15), cr},
		{"encryption-key", 1234567890123456, "the value is not text"},
		{"container-placement-strategy", "best", `"best" is not one of volume-locality, random, fewest-build-containers, limit-active-tasks, limit-active-containers, limit-active-volumes`},
		{"container-placement-strategy", "random,volume-locality", `random excludes other strategies; write it alone or leave it out`},
		{"container-placement-strategy", "limit-active-tasks,limit-active-tasks", `limit-active-tasks is given twice`},
		{"default-build-logs-to-retain", -1, `-1 is not a whole number between 0 and 1000000000`},
		{"max-days-to-retain-build-logs", "x", `x is not a whole number between 0 and 1000000000`},
		{"gc-failed-grace-period", "5", `"5" is not a time such as 30s, 10m or 1h30m`},
		{"secret-cache-duration", "5 minutes", `"5 minutes" is not a time such as 30s, 10m or 1h30m`},
		{"secret-cache-duration-notfound", "-1m", `"-1m" is not a time such as 30s, 10m or 1h30m`},
		{"secret-cache-enabled", 1, `1 is not true or false`},
		{"vault-url", "vault:8200", `"vault:8200" is not an http or https URL`},
		{"vault-auth-backend", "app role", white},
		{"vault-auth-backend-max-ttl", "1d", `"1d" is not a time such as 30s, 10m or 1h30m`},
		{"vault-auth-param", "role_id:hunter2,secret_id=hunter2", `pair 2 is not name:value; want pairs with commas between them, such as role_id:...,secret_id:...`},
		{"vault-client-token", "hunter2 x", `the value is not a token: it has white space or characters that are not ASCII`},
		{"vault-lookup-templates", "/{{.Team}", `"/{{.Team}" is not a template such as /{{.Team}}/{{.Secret}}; separate them with commas`},
		{"vault-lookup-templates", "{{.Team}}", `"{{.Team}}" is not a template such as /{{.Team}}/{{.Secret}}; separate them with commas`},
		{"vault-namespace", "a b", white},
		{"vault-path-prefix", "a\nb", white},
		{"vault-shared-path", "a\nCONCOURSE_X=y", cr},
		{"ldap-host", "ldaps://ldap", `"ldaps://ldap" is not a host such as ldap.example.com or ldap.example.com:636`},
		{"ldap-host", "ldap:x", `"ldap:x" is not a host such as ldap.example.com or ldap.example.com:636`},
		{"ldap-bind-dn", "a\nb", cr},
		{"ldap-bind-pw", "hunter2\x00", cr},
		{"ldap-user-search-base-dn", "people", `"people" is not a DN such as ou=people,dc=example,dc=com`},
		{"ldap-user-search-id-attr", "(uid)", `"(uid)" is not the name of an attribute such as uid or mail`},
		{"ldap-user-search-filter", "(a=b))(c=d)", `"(a=b))(c=d)" is not a filter in brackets such as (objectClass=person)`},
		{"ldap-group-search-filter", "a=b", `"a=b" is not a filter in brackets such as (objectClass=person)`},
		{"main-team-ldap-group", "a,,b", `there is nothing between two commas; want names with one comma between them`},
		{"oauth-auth-url", "/login", `"/login" is not an http or https URL`},
		{"oauth-scope", "a\x01", cr},
		{"oidc-client-secret", "hunter2\x7f", cr},
		{"oidc-groups-key", "my groups", white},
		{"oidc-skip-ssl-validation", "no", `no is not true or false`},
		{"registry-mirror", "https://mirror", mirror},
		{"registry-mirror", "https://ci:hunter2@mirror", mirror},
		{"registry-mirror", "mirror/v2", mirror},
		{"registry-mirror", "ci@mirror", mirror},
		{"registry-mirror", "ci:@mirror", mirror},
		{"registry-mirror", "hunter2 hunter2", mirror},
		{"registry-ca-cert", "/etc/ssl/ca.pem", `PEM block 1 is damaged: want its lines as the file has them, from -----BEGIN to -----END`},
		{"tag", "a,,b", `"" is not a tag: want words with commas between them, without white space or quotes`},
		{"tag", "a b", `"a b" is not a tag: want words with commas between them, without white space or quotes`},
		{"compute-runtime", "rcom", `"rcom" is not one of none, auto, ` + strings.Join(gpu.Runtimes(), ", ")},
		{"enable-gpu", "yes", `yes is not true or false`},
		{"gpu-sharing", "alone", `"alone" is not one of shared, exclusive`},
		{"gpu-sharing", true, `true is not text`},
		{"gpu-health-check", "check", `"check" is not the absolute path of a file, without . and .. and doubled slashes`},
		{"gpu-health-check", "/opt/../root/check", `"/opt/../root/check" is not the absolute path of a file, without . and .. and doubled slashes`},
		{"gpu-health-check", "/opt/check/", `"/opt/check/" is not the absolute path of a file, without . and .. and doubled slashes`},
		{"gpu-health-check", "/", `"/" is not in its container; want a file below /opt, /usr or a folder of /srv`},
		{"gpu-health-check", "/home/ann/check", `"/home/ann/check" is not in its container; want a file below /opt, /usr or a folder of /srv`},
		{"gpu-health-check", "/srv/check", `"/srv/check" is not in its container; want a file below /opt, /usr or a folder of /srv`},
		{"gpu-health-check", "/srv/.tools/check", `"/srv/.tools/check" is in a hidden folder of /srv; take another one`},
		{"gpu-health-check", "/srv/cache_rw/check", `tasks can write to /srv/cache_rw; put the program into another folder`},
		{"gpu-health-check", "/srv/out_writable/a/check", `tasks can write to /srv/out_writable; put the program into another folder`},
		{"gpu-health-check", "/opt/a\nb", cr},
		{"task-env", "HSA_OVERRIDE_GFX_VERSION=11", `HSA_OVERRIDE_GFX_VERSION: "11" is not auto or a version such as 11.0.0`},
		{"srv-folders", "../etc", `"../etc" is not the name of a folder in /srv`},
		{"srv-folders-containers", "some", `"some" is not one of tasks, all`},
		{"amd-container-toolkit", "maybe", `"maybe" is not auto, required, skip or a version such as 1.3.0`},
		{"nvidia-container-toolkit", "latest", `"latest" is not auto or a version such as 1.17.8`},
		{"rocm-base-url", "ftp://x", `"ftp://x" is not an http or https URL`},
		{"containerd-dns-server", "1.1.1.1,dns", `"dns" is not an IP address; want addresses with commas between them`},
		{"worker-drain-timeout", "-1s", `"-1s" is not a time between 0s and 24h, such as 30s, 10m or 1h`},
		{"rocm-usecases", "rocm-smi", `"rocm-smi" is not one of rocm, rocmdevtools, lrt, hip, hiplibsdk, opencl, openclsdk, openmpsdk, mllib, mlsdk, smi`},
		{"install-driver", "yes", `"yes" is not one of auto, always, replace, never`},
		{"gpu-metrics", "usage,dcgm", `"dcgm" is not one of usage, pcie-bandwidth, dcgm-aliases`},
	} {
		raw := fullFor(t, c.option)
		raw[c.option] = c.value
		_, problems := Parse(raw, nil)
		require.Len(t, problems, 1, "%s: %v", c.option, problems)
		require.Equal(t, c.option+": "+c.want, problems[0].String())
		if !strings.Contains(c.want, " is not one of ") { // a status is cut in the list of values
			require.LessOrEqual(t, len(problems[0].String()), status.Limit, problems[0])
		}
		require.NotContains(t, problems[0].String(), "hunter2")
	}
}

// These problems depend on several options.
func TestConflictingOptionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		raw  map[string]any
		want []string
	}{
		{map[string]any{"tls-enabled": true, "tls-port": 8080}, []string{"tls-port: 8080 is web-port, too; give one of them another port"}},
		{map[string]any{"tls-port": 8080}, nil},
		{map[string]any{"default-build-logs-to-retain": 9, "max-build-logs-to-retain": 5}, []string{"default-build-logs-to-retain: 9 is more than the 5 of max-build-logs-to-retain; lower it or raise that"}},
		{map[string]any{"default-build-logs-to-retain": 9}, nil},
		{map[string]any{"default-days-to-retain-build-logs": 9, "max-days-to-retain-build-logs": 5}, []string{"default-days-to-retain-build-logs: 9 is more than the 5 of max-days-to-retain-build-logs; lower it or raise that"}},
		{map[string]any{"vault-url": "https://vault"}, []string{"vault-url: Concourse can't log in there; set vault-client-token, or vault-auth-backend and vault-auth-param"}},
		{map[string]any{"vault-url": "https://vault", "extra-web-flags": "--vault-client-token-path=/t"}, nil},
		{map[string]any{"vault-url": "https://vault", "vault-auth-backend": "cert"}, nil},
		{map[string]any{"vault-url": "https://vault", "vault-auth-backend": "cert", "vault-client-token": "hunter2"},
			[]string{"vault-client-token: Concourse uses it and ignores vault-auth-backend; reset one of them"}},
		{map[string]any{"vault-path-prefix": "ci"}, nil}, // the relation provides the rest
		{map[string]any{"ldap-host": "ldap"}, []string{"ldap-host: incomplete; set ldap-bind-dn, ldap-bind-pw, ldap-user-search-base-dn, ldap-user-search-username, or reset it"}},
		{map[string]any{"ldap-display-name": "ours", "ldap-bind-pw": "hunter2"}, []string{"ldap-display-name: incomplete; set ldap-host, ldap-bind-dn, ldap-user-search-base-dn, ldap-user-search-username, or reset it"}},
		{map[string]any{"ldap-display-name": "ours", "ldap-user-search-username": "mail"}, nil}, // the relation provides the rest
		{map[string]any{"oauth-scope": "openid", "oauth-client-id": "ci"}, []string{"oauth-client-id: incomplete; set oauth-client-secret, oauth-auth-url, oauth-token-url, oauth-userinfo-url, or reset it"}},
		{map[string]any{"oidc-issuer": "https://o"}, []string{"oidc-issuer: incomplete; set oidc-client-id, oidc-client-secret, or reset it"}},
		{map[string]any{"oidc-skip-ssl-validation": true}, []string{"oidc-skip-ssl-validation: incomplete; set oidc-issuer, oidc-client-id, oidc-client-secret, or reset it"}},
		// One wrong value is one problem.
		{map[string]any{"oidc-issuer": "o", "oidc-client-id": "ci", "oidc-client-secret": "s"}, []string{`oidc-issuer: "o" is not an http or https URL`}},
	} {
		_, problems := Parse(c.raw, nil)
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		require.Equal(t, c.want, got)
	}
}

func TestOptionsWithoutEffectAreNoted(t *testing.T) {
	c, problems := Parse(map[string]any{"main-team-oidc-group": "admins", "auto-upgrade": true, "version": "8.2.5"}, nil)
	require.Empty(t, problems)
	require.Equal(t, []string{"main-team-oidc-group has no effect without oidc-issuer, oidc-client-id, oidc-client-secret", "auto-upgrade has no effect while version names one"}, c.Notes)
	require.Equal(t, "admins", c.Web.Env["CONCOURSE_MAIN_TEAM_OIDC_GROUP"])

	const server = " has no effect without the relation ldap or ldap-host, ldap-bind-*, ldap-user-search-*"
	for raw, want := range map[string]string{"main-team-ldap-group": "main-team-ldap-group" + server,
		"ldap-user-search-username": "ldap-user-search-username" + server} {
		c, problems := Parse(map[string]any{raw: "uid"}, nil)
		require.Empty(t, problems)
		require.Empty(t, c.Notes)
		require.Equal(t, []string{want}, c.Web.LDAPNotes)
	}
}
