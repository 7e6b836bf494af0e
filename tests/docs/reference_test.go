package docs

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestActionsAreThoseOfActionsYAML(t *testing.T) {
	var actions map[string]struct {
		Description string
		Params      map[string]struct {
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
	for name, a := range actions {
		if strings.HasPrefix(a.Description, "The former name of ") {
			require.Contains(t, page, "`"+name+"`")
			delete(actions, name)
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(actions)), slices.Collect(maps.Keys(listed)))

	var reasons, known []string
	for _, row := range table(page, "reason") {
		reasons = append(reasons, spans(row[0])[0])
	}
	for _, m := range regexp.MustCompile(`\bReason += "([a-z-]+)"`).FindAllStringSubmatch(readFile(t, "internal/gpu/unusable.go"), -1) {
		known = append(known, m[1])
	}
	require.ElementsMatch(t, known, reasons)
}

// Some versions of Juju refuse a charm with endpoints that the last release did not have.
func TestUpgradePageNamesNewEndpoints(t *testing.T) {
	newest := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - `).FindStringSubmatch(readFile(t, "CHANGELOG.md"))
	require.NotNil(t, newest)
	names := func(file string) (all []string) {
		var meta struct{ Provides, Requires, Peers, Resources map[string]any }
		require.NoError(t, yaml.Unmarshal([]byte(readFile(t, file)), &meta))
		for _, group := range []map[string]any{meta.Provides, meta.Requires, meta.Peers, meta.Resources} {
			all = slices.AppendSeq(all, maps.Keys(group))
		}
		return all
	}
	had := names("tools/charmpack/testdata/released/" + newest[1] + ".yaml")
	added := slices.DeleteFunc(names("metadata.yaml"), func(name string) bool { return slices.Contains(had, name) })
	slices.Sort(added)
	text := "New after " + newest[1] + ": `" + strings.Join(added, "`, `") + "`.\n"
	const page = "docs/how-to/upgrade.md"
	hosttest.Golden(t, filepath.Join(root, page), withSection(t, readFile(t, page), "new", text))
}

// databagsPage lists keys of interfaces that others define, for whoever changes the charm.
const databagsPage = "internal/charm/relation/DATABAGS.md"

func TestRelationsAreThoseOfTheCode(t *testing.T) {
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
	for _, row := range table(page, "endpoint") {
		listed[spans(row[0])[0]] = row[1] + " " + spans(row[2])[0]
	}
	require.Equal(t, endpoints, listed)
	for heading, want := range bagKeys(t) {
		var keys []string
		for _, row := range table(page, heading) {
			keys = append(keys, spans(row[0])...)
		}
		require.ElementsMatch(t, want, keys, heading)
	}

	var watched []string
	for _, row := range table(page, "monitoring key") {
		watched = append(watched, spans(row[0])[0])
	}
	require.ElementsMatch(t, slices.Concat(relation.ScrapeAppKeys(), relation.ScrapeUnitKeys(), []string{relation.COSAgentKey}), watched)
}

// bagKeys are the keys that each table of the page has to list: those that are
// written, and those that the code looks for in what others wrote.
func bagKeys(t *testing.T) map[string][]string {
	t.Helper()
	looked := func(file string) (keys []string) {
		lookup := regexp.MustCompile(`(?:app|bag)\["([a-z_-]+)"\]|(?:\.get|secret|role)\((?:app, |content, )?"([a-z-]+)"|"(worker-[a-z-]+)":`)
		for _, m := range lookup.FindAllStringSubmatch(readFile(t, file), -1) {
			keys = append(keys, m[1]+m[2]+m[3])
		}
		require.NotEmpty(t, keys, file)
		return keys
	}
	const folder = "internal/charm/relation/"
	vaultApp, vaultUnit := relation.VaultRequest("x", nil)
	routeApp, err := relation.Route{}.Databag()
	require.NoError(t, err)
	tsa := slices.Concat(slices.Collect(maps.Keys(relation.TSADatabag("h", "k", "v", "p"))), slices.Collect(maps.Keys(relation.WorkerDatabag("k", "n", "v"))), slices.Collect(maps.Keys(relation.DrainDatabag(0))),
		slices.Collect(maps.Keys(relation.WorkerGPUs{}.Databag())))
	require.Subset(t, tsa, looked("internal/concourse/tsa.go"))
	require.Subset(t, tsa, looked(folder+"tsa.go"))
	unique := func(parts ...[]string) []string {
		return slices.Compact(slices.Sorted(slices.Values(slices.Concat(parts...))))
	}
	keysOf := func(bag map[string]string) []string { return slices.Collect(maps.Keys(bag)) }
	return map[string][]string{
		"key":                  tsa,
		"peers key":            append([]string{model.WebSecretKey, web.HoldKey}, tsa...),
		"postgresql key":       unique(keysOf(relation.DatabaseRequest()), keysOf(relation.DatabaseUnitRequest()), looked(folder+"postgresql.go")),
		"vault-kv key":         unique(keysOf(vaultApp), keysOf(vaultUnit), looked(folder+"vault.go")),
		"haproxy-route key":    unique(keysOf(routeApp), keysOf(relation.RouteUnit("10.0.0.2")), looked(folder+"route.go")),
		"tracing key":          unique(keysOf(relation.TracingRequest()), looked(folder+"tracing.go")),
		"certificates key":     unique(keysOf(relation.CertificateDatabag("x")), looked(folder+"certificates.go")),
		"ldap key":             unique(keysOf(relation.LDAPRequest("a", "m")), looked(folder+"ldap.go")),
		"catalogue key":        keysOf(relation.CatalogueEntry("ci", "http://10.0.0.2:9358/")),
		"receive-ca-certs key": unique(keysOf(relation.AuthoritiesRequest()), looked(folder+"authorities.go")),
	}
}

func TestOverridesAreThoseOfTheCode(t *testing.T) {
	var known, listed [][]string
	for _, m := range regexp.MustCompile(`\{"(gfx\w+)", "([0-9.]+)", "`).FindAllStringSubmatch(readFile(t, "internal/gpu/amd/gfx.go"), -1) {
		known = append(known, m[1:])
	}
	for _, row := range table(readFile(t, "docs/explanation/gpus-in-tasks.md"), "architecture") {
		for _, architecture := range spans(row[0]) {
			listed = append(listed, []string{architecture, spans(row[1])[0]})
		}
	}
	require.NotEmpty(t, known)
	require.Equal(t, known, listed)
}
