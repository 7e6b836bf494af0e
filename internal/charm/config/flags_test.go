package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExtraWebFlagsAreSplitLikeInAShell(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"--enable-across-step --enable-resource-causality":                                  {"--enable-across-step", "--enable-resource-causality"},
		"--max-checks-per-second=-1":                                                        {"--max-checks-per-second=-1"},
		"--default-task-timeout 1h --enable-across-step":                                    {"--default-task-timeout=1h", "--enable-across-step"},
		`--oidc-issuer-url='https://a b'`:                                                   {"--oidc-issuer-url=https://a b"},
		`"--datadog-prefix=a \"b\" \\ \n"`:                                                  {`--datadog-prefix=a "b" \ \n`},
		`--datadog-prefix=a\ b`:                                                             {"--datadog-prefix=a b"},
		"  --log-cluster-name\n\t--datadog-prefix=''  ":                                     {"--log-cluster-name", "--datadog-prefix="},
		"--datadog-prefix=$HOME;%h`id`":                                                     {"--datadog-prefix=$HOME;%h`id`"}, // nothing is expanded
		"--config-rbac=/etc/rbac.yml":                                                       {"--config-rbac=/etc/rbac.yml"},
		"--container-placement-strategy=limit-active-tasks --max-active-tasks-per-worker 2": {"--container-placement-strategy=limit-active-tasks", "--max-active-tasks-per-worker=2"},
	} {
		c, problems := Parse(map[string]any{"extra-web-flags": text}, nil)
		require.Empty(t, problems, text)
		require.Equal(t, want, c.Web.ExtraWebFlags, text)
	}
}

// D28: flags are escaped in the unit file. A flag cannot replace the charm's own settings or
// show a secret in the list of processes.
func TestD28InvalidWebFlagsAreRefused(t *testing.T) {
	const own, out = " is the charm's to set; use the option ", " is the charm's to set; leave it out"
	const form = " is not a flag of concourse web; write --flag or --flag=value, in quotes if it has white space"
	const shows = " shows a secret; write CONCOURSE_"
	for text, want := range map[string]string{
		"hunter2":                            "word 1" + form,
		"-v":                                 "word 1" + form,
		"--a=1 hunter2":                      "word 2" + form,
		"--a b hunter2":                      "word 3" + form,
		"--max-checks-per-second -1":         "word 2" + form,
		"--":                                 "word 1" + form,
		"--A":                                "word 1" + form,
		"; rm":                               "word 1" + form,
		"--a 'b":                             "a quote is not closed",
		`--a="hunter2`:                       "a quote is not closed",
		`--a=hunter2\`:                       "there is nothing after the last backslash",
		"--a='x\ny'":                         "word 1 has a line end or another control character",
		"--bind-port=80":                     "--bind-port" + own + "web-port",
		"--bind-port 80":                     "--bind-port" + own + "web-port",
		"--tls-key=/k":                       "--tls-key" + own + "tls-enabled",
		"--tsa-host-key=/k":                  "--tsa-host-key" + out,
		"--session-signing-key /k":           "--session-signing-key" + out,
		"--postgres-host=db":                 "--postgres-host" + out,
		"--postgres-password=hunter2":        "--postgres-password" + out,
		"--help":                             "--help" + out,
		"--old-encryption-key=hunter2":       "--old-encryption-key" + own + "encryption-key",
		"--add-local-user=a:hunter2":         "--add-local-user" + own + "extra-local-users",
		"--ldap-bind-pw=hunter2":             "--ldap-bind-pw" + own + "ldap-bind-pw",
		"--oidc-client-secret hunter2":       "--oidc-client-secret" + own + "oidc-client-secret",
		"--github-client-secret=hunter2":     "--github-client-secret" + shows + "GITHUB_CLIENT_SECRET into config.env",
		"--client-secret=hunter2":            "--client-secret" + shows + "CLIENT_SECRET into config.env",
		"--add-client=fly:hunter2":           "--add-client" + shows + "ADD_CLIENT into config.env",
		"--influxdb-password=hunter2":        "--influxdb-password" + shows + "INFLUXDB_PASSWORD into config.env",
		"--aws-ssm-secret-key hunter2":       "--aws-ssm-secret-key" + shows + "AWS_SSM_SECRET_KEY into config.env",
		"--tracing-honeycomb-api-key=hunter": "--tracing-honeycomb-api-key" + shows + "TRACING_HONEYCOMB_API_KEY into config.env",
	} {
		c, problems := Parse(map[string]any{"extra-web-flags": text}, nil)
		require.Len(t, problems, 1, text)
		require.Equal(t, "extra-web-flags: "+want, problems[0].String())
		require.NotContains(t, problems[0].String(), "hunter2")
		require.Empty(t, c.Web.ExtraWebFlags)
	}
}

func FuzzWebFlags(f *testing.F) {
	for _, s := range []string{`--a=b --c d`, `--a='x "y"' "--b=\"" --c\ d`, `--a="b`, `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		flags, err := webFlags(text)
		if err != nil {
			return
		}
		var quoted []string
		options := charmFlags()
		for _, flag := range flags {
			name, _, _ := strings.Cut(flag, "=")
			require.Regexp(t, flagForm(), name)
			require.NoError(t, allowed(name, options))
			require.True(t, printable(flag), "%q", flag)
			quoted = append(quoted, "'"+strings.ReplaceAll(flag, "'", `'\''`)+"'")
		}
		again, err := webFlags(strings.Join(quoted, " "))
		require.NoError(t, err)
		require.Equal(t, flags, again)
	})
}
