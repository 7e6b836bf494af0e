package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The golden file has what config.yaml means as values of Go.
func TestDefaultsAreValid(t *testing.T) {
	c, problems := Parse(map[string]any{"mode": nil}, nil)
	require.Empty(t, problems)
	c.Web.Env, c.Web.VaultEnv = nil, nil // see TestD26
	data, err := yaml.Marshal(c)
	require.NoError(t, err)
	hosttest.Golden(t, "testdata/defaults.golden", string(data))
}

func TestEachModeIsAccepted(t *testing.T) {
	for _, mode := range []Mode{ModeAuto, ModeWeb, ModeWorker} {
		c, problems := Parse(map[string]any{"mode": string(mode)}, nil)
		require.Empty(t, problems)
		require.Equal(t, mode, c.Mode)
	}
}

func TestNumbersAreAcceptedUpToTheirLimits(t *testing.T) {
	for option, numbers := range map[string][]int{"web-port": {1, 65535}, "tls-port": {1, 65535},
		"task-record-size": {0, 1 << 20}} {
		for _, n := range numbers {
			_, problems := Parse(map[string]any{option: n}, nil)
			require.Empty(t, problems, "%s=%d", option, n)
		}
	}
}

// The documented deploy line has enable-gpu=true and names no runtime.
func TestEnableGPUMeansAutoOnlyWithoutComputeRuntime(t *testing.T) {
	for runtime, want := range map[ComputeRuntime]ComputeRuntime{RuntimeNone: RuntimeAuto, "rocm": "rocm",
		"cuda": "cuda", RuntimeAuto: RuntimeAuto} {
		c, problems := Parse(map[string]any{"mode": "worker", "compute-runtime": string(runtime), "enable-gpu": true}, nil)
		require.Empty(t, problems)
		require.Equal(t, want, c.GPU.ComputeRuntime)
	}
}

func TestVersionOfAMDsToolkitIsInstalledAsWithAuto(t *testing.T) {
	c, problems := Parse(map[string]any{"amd-container-toolkit": "1.2.0"}, nil)
	require.Empty(t, problems)
	require.Equal(t, amd.ToolkitAuto, c.Driver.AMDContainerToolkit)
	require.Equal(t, "1.2.0", c.Driver.AMDToolkitVersion)
}

// D31: the operator can change the name servers. Without any, tasks use the machine's.
func TestD31NameServersOfTheMachineCanBeUsed(t *testing.T) {
	for text, want := range map[string][]string{"": nil, "10.0.0.53, fd00::53": {"10.0.0.53", "fd00::53"}} {
		c, problems := Parse(map[string]any{"containerd-dns-server": text}, nil)
		require.Empty(t, problems)
		require.Equal(t, want, c.Worker.ContainerdDNSServer)
	}
}

// Concourse 8.2.5 refuses to start with the level warn, which the Python charm
// took.
func TestWarnBecomesALevelOfConcourse(t *testing.T) {
	c, problems := Parse(map[string]any{"log-level": "warn"}, nil)
	require.Empty(t, problems)
	require.Equal(t, LogError, c.LogLevel)
}

func TestValuesAreWrittenAsConcourseReadsThem(t *testing.T) {
	raw := full(t)
	maps.Copy(raw, map[string]any{
		"external-url": "https://ci.example.com/", "main-team-local-user": "admin, ann", "container-placement-strategy": "limit-active-tasks, volume-locality",
		"oauth-scope": "openid profile,email", "vault-path-prefix": "ci", "vault-lookup-templates": "/{{.Team}}/{{.Secret}}, /{{.Secret}}",
		"main-team-ldap-group": "a b,c", "default-build-logs-to-retain": json.Number("9"), "max-build-logs-to-retain": 9.0, "web-port": int64(80), "oidc-ca-cert": "",
		"ldap-host": "[fd00::1]:636",
	})
	c, problems := Parse(raw, nil)
	require.Empty(t, problems)
	require.Equal(t, "https://ci.example.com", c.Web.ExternalURL)
	require.Equal(t, "admin,ann", c.Web.MainTeamLocalUser)
	require.Equal(t, 80, c.Web.Port)
	for key, want := range map[string]string{"CONTAINER_PLACEMENT_STRATEGY": "limit-active-tasks,volume-locality", "OAUTH_SCOPE": "openid,profile,email",
		"MAIN_TEAM_LDAP_GROUP": "a b,c", "DEFAULT_BUILD_LOGS_TO_RETAIN": "9", "MAX_BUILD_LOGS_TO_RETAIN": "9", "LDAP_HOST": "[fd00::1]:636"} {
		require.Equal(t, want, c.Web.Env["CONCOURSE_"+key])
	}
	require.Equal(t, "/ci", c.Web.VaultEnv["CONCOURSE_VAULT_PATH_PREFIX"])
	require.Equal(t, "/{{.Team}}/{{.Secret}},/{{.Secret}}", c.Web.VaultEnv["CONCOURSE_VAULT_LOOKUP_TEMPLATES"])
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	_, problems := Parse(map[string]any{"mode": "both", "log-level": "loud", "tag": ",", "web-port": 2222, "oidc-issuer": "https://o"}, nil)
	require.Len(t, problems, 5)
}

// D32: a proxy's password is in no status and in no log.
func TestProblemOfAProxyDoesNotQuoteTheValue(t *testing.T) {
	_, problems := Parse(map[string]any{"mode": "worker", "http-proxy": "http://me:pa ss@proxy", "https-proxy": "socks:hunter2"}, nil)
	require.Len(t, problems, 2)
	for _, p := range problems {
		require.NotContains(t, p.String(), "pa ss")
		require.NotContains(t, p.String(), "hunter2")
	}
}

// A problem of a URL does not quote its password and token.
func TestProblemOfAURLHasNoPassword(t *testing.T) {
	urls := 0
	for _, o := range Options() {
		name := o.Name
		if !strings.HasSuffix(name, "-url") && !strings.HasSuffix(name, "-mirror") && !strings.HasSuffix(name, "-issuer") && !strings.HasSuffix(name, "-host") {
			continue
		}
		if name == "registry-mirror" { // it is not a URL, and its problem repeats nothing
			continue
		}
		for _, wrong := range []string{"htps://me:hunter2@mirror.example", "https://me:hunter2@mirror example/x", "me:hunter2@mirror.example",
			"https://me:hun@ter2@mirror.example:port", "htps://mirror.example/?token=hunter2", "http://me:hunter2@mirror.example/?a=b c"} {
			_, problems := Parse(map[string]any{"mode": "web", name: wrong}, nil)
			require.NotEmpty(t, problems, "%s=%s", name, wrong)
			for _, p := range problems {
				require.NotContains(t, p.String(), "hunter2", name)
				require.NotContains(t, p.String(), "hun@", name)
			}
		}
		urls++
	}
	require.Greater(t, urls, 8)
}

// Any text in any option: no panic, nothing that no line of an environment
// file can hold, and no secret in a problem.
func FuzzParse(f *testing.F) {
	for _, o := range Options() {
		f.Add(o.Name, "0-3,GPU-1")
		f.Add(o.Name, "hunter2:hunter2,\x00hunter2")
		f.Add(o.Name, "secret:hunter2")
		f.Add(o.Name, "http://a/\u0080")
	}
	f.Fuzz(func(t *testing.T, option, value string) {
		c, problems := Parse(map[string]any{option: value}, nil)
		for _, o := range Options() {
			if o.Name == option && o.Secret && strings.Contains(value, "hunter2") {
				for _, p := range problems {
					require.NotContains(t, p.Text, "hunter2")
				}
			}
		}
		if slices.ContainsFunc(problems, func(p Problem) bool { return p.Option == option }) {
			return
		}
		for _, tag := range c.Worker.Tag {
			require.False(t, strings.ContainsAny(tag, ", \n\""))
		}
		for _, v := range append(c.Worker.Tag, c.NoProxy, c.HTTPProxy, c.HTTPSProxy, c.Web.ExternalURL, c.Web.InitialAdminUsername, c.Web.MainTeamLocalUser, c.Web.ExtraLocalUsers, c.Web.EncryptionKey) {
			require.True(t, printable(v), "%q", v)
		}
		for _, env := range []map[string]string{c.Web.Env, c.Web.VaultEnv} {
			for key, v := range env {
				require.True(t, printable(v) && v != "", "%s=%q", key, v)
			}
		}
	})
}
