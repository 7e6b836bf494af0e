package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

func TestActionsAreFromActionsYAML(t *testing.T) {
	var actions map[string]struct {
		Params map[string]struct {
			Enum []string
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "actions.yaml")), &actions))
	page := readFile(t, "docs/reference/actions.md")
	listed := map[string]bool{}
	for _, row := range table(page, "action") {
		name := spans(row[0])[0]
		listed[name] = true
		want := slices.Collect(maps.Keys(actions[name].Params))
		for _, p := range actions[name].Params {
			if !slices.Equal(p.Enum, []string{"text", "json"}) { // above the table
				want = append(want, p.Enum...)
			}
		}
		require.ElementsMatch(t, want, spans(row[1]), name)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(actions)), slices.Collect(maps.Keys(listed)))

	var reasons []gpu.Reason
	for _, reason := range terms(sectionOf(page, "json")) {
		reasons = append(reasons, gpu.Reason(reason))
	}
	require.ElementsMatch(t, gpu.Reasons, reasons)
}

// databagsPage lists keys of interfaces that others define, for whoever changes the charm.
const databagsPage = "internal/charm/relation/DATABAGS.md"

func TestRelationsAreFromTheCode(t *testing.T) {
	var meta struct {
		Requires, Provides, Peers map[string]struct{ Interface string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "metadata.yaml")), &meta))
	page := readFile(t, "docs/reference/relations.md") + readFile(t, databagsPage)
	endpoints := map[string]string{}
	for role, all := range map[string]map[string]struct{ Interface string }{"requires ": meta.Requires, "provides ": meta.Provides, "peer ": meta.Peers} {
		for name, e := range all {
			endpoints[name] = role + e.Interface
		}
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^- `([a-z-]+)`: (provides|requires|peer) `([a-z_-]+)`").FindAllStringSubmatch(page, -1) {
		listed[m[1]] = m[2] + " " + m[3]
	}
	require.Equal(t, endpoints, listed)
	rows := func(heading string) (keys []string) {
		for _, row := range table(page, heading) {
			keys = append(keys, spans(row[0])...)
		}
		return keys
	}
	for heading, want := range written(t) {
		require.Subset(t, rows(heading), want, heading)
	}
	var tsa []string
	for _, bag := range []map[string]string{relation.TSADatabag("h", "k", "v", "p"), relation.WorkerDatabag("k", "n", "v"),
		relation.DrainDatabag(0), relation.WorkerGPUs{}.Databag()} {
		tsa = slices.AppendSeq(tsa, maps.Keys(bag))
	}
	require.ElementsMatch(t, tsa, rows("key"))
	require.ElementsMatch(t, append(tsa, model.WebSecretKey, web.HoldKey), rows("peers key"))

	var watched []string
	for _, row := range table(page, "monitoring key") {
		watched = append(watched, spans(row[0])[0])
	}
	require.ElementsMatch(t, slices.Concat(relation.ScrapeAppKeys(), relation.ScrapeUnitKeys(), []string{relation.COSAgentKey}), watched)
}

// written returns the keys that the charm writes into the databags of each table's interface.
func written(t *testing.T) map[string][]string {
	t.Helper()
	vaultApp, vaultUnit := relation.VaultRequest("x", nil)
	routeApp, err := relation.Route{}.Databag()
	require.NoError(t, err)
	keys := func(bags ...map[string]string) (all []string) {
		for _, bag := range bags {
			all = slices.AppendSeq(all, maps.Keys(bag))
		}
		return all
	}
	return map[string][]string{
		"postgresql key":       keys(relation.DatabaseRequest(), relation.DatabaseUnitRequest()),
		"vault-kv key":         keys(vaultApp, vaultUnit),
		"haproxy-route key":    keys(routeApp, relation.RouteUnit("10.0.0.2")),
		"tracing key":          keys(relation.TracingRequest()),
		"certificates key":     keys(relation.CertificateDatabag("x")),
		"ldap key":             keys(relation.LDAPRequest("a", "m")),
		"catalogue key":        keys(relation.CatalogueEntry("ci", "http://10.0.0.2:9358/")),
		"receive-ca-certs key": keys(relation.AuthoritiesRequest()),
	}
}

func TestOverridesAreFromTheCode(t *testing.T) {
	listed := map[string]string{}
	for _, row := range table(readFile(t, "docs/explanation/gpus-in-tasks.md"), "architecture") {
		for _, architecture := range spans(row[0]) {
			listed[architecture] = spans(row[1])[0]
		}
	}
	known := map[string]string{}
	for major := 6; major < 20; major++ {
		for rest := range 1 << 8 { // minor and stepping, a hex digit each
			architecture := fmt.Sprintf("gfx%d%02x", major, rest)
			version, err := amd.OverrideGFX([]string{architecture})
			require.NoError(t, err)
			if version != "" {
				known[architecture] = version
			}
		}
	}
	require.NotEmpty(t, known)
	require.Equal(t, known, listed)
}
