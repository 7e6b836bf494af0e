package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJujuCommandsAreThoseOfTheCharm(t *testing.T) {
	w := readJujuWorld(t)
	seen := map[string]bool{}
	for _, c := range commands(t, "juju") {
		seen[c.argv[1]] = true
		problem := w.jujuProblem(c.argv, c.span)
		assert.Empty(t, problem, "%s: %s", c.page, c.line)
	}
	for verb := range jujuCommands {
		assert.True(t, seen[verb], "no page uses juju %s any more; take it out of this test", verb)
	}
}

// What one client lacks is no command for a page. The lists are those of the modules that
// tests/juju and tests/controller/juju build: another Juju there wants other lists.
func TestJujuCommandsAreThoseOfBothClients(t *testing.T) {
	for list, module := range map[string]string{"juju-3.6.11.txt": "tests/juju/go.mod", "juju-4.1-beta2.txt": "tests/controller/juju/go.mod"} {
		text := readFile(t, "tests/docs/testdata/"+list)
		version := regexp.MustCompile(`(?m)^# (github\.com/juju/juju v\S+)$`).FindStringSubmatch(text)
		require.NotNil(t, version, list)
		require.Contains(t, readFile(t, module), version[1], "%s is of another Juju; make it again from the client's help", list)
		known, withFlags := map[string][]string{}, false
		for line := range strings.Lines(text) {
			if words := strings.Fields(line); words[0] != "#" {
				known[words[0]] = words[1:]
				withFlags = withFlags || len(words) > 1
			}
		}
		for verb, flags := range jujuCommands {
			has, ok := known[verb]
			assert.True(t, ok, "%s has no juju %s", list, verb)
			if withFlags && ok {
				assert.Subset(t, has, strings.Fields(flags), "%s: juju %s", list, verb)
			}
		}
	}
}

func TestWrongJujuCommandsAreFound(t *testing.T) {
	w := readJujuWorld(t)
	for line, want := range map[string]string{
		"juju config web tls-enabled=true":                            "",
		"juju config web tls-enabled=perhaps":                         "tls-enabled: ",
		"juju config web web-prot=80":                                 "no option web-prot",
		"juju config web web-port=2222":                               "web-port: 2222",
		"juju config ldap-integrator base_dn=dc=example,dc=com":       "",
		"juju config ldap-integrator base-dn=dc=example,dc=com":       "no option base-dn",
		"juju config postgresql x=y":                                  "no application of this charm",
		"juju config web --reset versoin":                             "no option versoin",
		"juju run web/leader rotate-keys keys=session":                "",
		"juju run web/leader rotate-keys keys=sessions":               "does not take",
		"juju run web/leader rotate-keys key=session":                 "has no parameter key",
		"juju run web rotate-keys keys=all":                           "wants a unit",
		"juju run web/leader rotate-keys":                             "needs keys",
		"juju run web/0 explain-error":                                "needs code",
		"juju run web/0 explain-error code=two":                       "does not take",
		"juju run web/0 reset-rocm apply=maybe":                       "does not take",
		"juju run web/0 explode":                                      "no action explode",
		"juju integrate rocm-worker:flight web:tsa":                   "",
		"juju integrate rocm-worker:tsa web:tsa":                      "do not fit",
		"juju integrate web:postgresql postgresql:db":                 "no such endpoint",
		"juju integrate web:certificates postgresql:database":         "do not fit",
		"juju attach-resource web concourse=./x.tgz":                  "no resource",
		"juju deploy ./concourse-ci-machine_amd64.charm other":        "does not know",
		"juju deploy ./x.charm web --config mode=both":                "mode: ",
		"juju deploy ./x.charm web --resource release=./x.tgz":        "no resource",
		"juju refresh web --force":                                    "does not know the flag",
		"juju wait-for application web":                               "does not know juju wait-for",
		"juju status --watch 5s":                                      "does not know the flag --watch",
		"juju relate a b":                                             "does not know juju relate",
		"juju expose wbe":                                             "no application of this charm",
		"juju refresh web --resource release=./x.tgz":                 "no resource",
		"juju refresh web --config release-mirorr=http://x":           "no option release-mirorr",
		"juju refresh web --path":                                     "has no value",
		"juju config web ldap-bind-pw=secret:...":                     "",
		"juju config web ldap-bind-pw=secret:... ldap-host=x.example": "incomplete",
		"juju config web github-token=<one>":                          "",
	} {
		got := w.jujuProblem(simple(line)[0], false)
		if want == "" {
			require.Empty(t, got, line)
		} else {
			require.Contains(t, got, want, line)
		}
	}
}
