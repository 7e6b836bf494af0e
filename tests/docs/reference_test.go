package docs

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/relation"
)

func TestActionsAreThoseOfActionsYAML(t *testing.T) {
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
		require.ElementsMatch(t, slices.Collect(maps.Keys(actions[name].Params)), spans(row[1]), name)
		for param, p := range actions[name].Params {
			require.Equal(t, p.Enum, spans(row[2]), param)
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(actions)), slices.Collect(maps.Keys(listed)))

	var reasons, known []string
	for _, row := range table(page, "reason") {
		reasons = append(reasons, spans(row[0])[0])
	}
	for _, m := range regexp.MustCompile(`\bReason += "([a-z-]+)"`).FindAllStringSubmatch(readFile(t, "internal/gpu/left.go"), -1) {
		known = append(known, m[1])
	}
	require.ElementsMatch(t, known, reasons)
}

func TestRelationsAreThoseOfTheCode(t *testing.T) {
	var meta struct {
		Requires, Provides map[string]struct{ Interface string }
		Peers              map[string]any
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "metadata.yaml")), &meta))
	require.Empty(t, meta.Peers, "describe these, too")
	page := readFile(t, "docs/reference/relations.md")
	endpoints := map[string]string{}
	for name, e := range meta.Requires {
		endpoints[name] = "requires " + e.Interface
	}
	for name, e := range meta.Provides {
		endpoints[name] = "provides " + e.Interface
	}
	listed := map[string]string{}
	for _, row := range table(page, "endpoint") {
		listed[spans(row[0])[0]] = row[1] + " " + spans(row[2])[0]
	}
	require.Equal(t, endpoints, listed)
	var keys []string
	for _, row := range table(page, "key") {
		keys = append(keys, spans(row[0])[0])
	}
	var used []string
	bag := regexp.MustCompile(`(?:bag|Own)\["([a-z-]+)"\]`)
	for _, file := range []string{"internal/concourse/tsa.go", "internal/charm/publish.go"} {
		for _, m := range bag.FindAllStringSubmatch(readFile(t, file), -1) {
			used = append(used, m[1])
		}
	}
	require.ElementsMatch(t, used, keys)

	var watched []string
	for _, row := range table(page, "monitoring key") {
		watched = append(watched, spans(row[0])[0])
	}
	require.ElementsMatch(t, slices.Concat(relation.ScrapeAppKeys(), relation.ScrapeUnitKeys(), []string{relation.COSAgentKey}), watched)
}

func TestOverridesAreThoseOfTheCode(t *testing.T) {
	var known, listed [][]string
	for _, m := range regexp.MustCompile(`\{"(gfx\w+)", "([0-9.]+)", "`).FindAllStringSubmatch(readFile(t, "internal/rocm/gfx.go"), -1) {
		known = append(known, m[1:])
	}
	for _, row := range table(readFile(t, "docs/explanation/gpus-in-tasks.md"), "architecture") {
		listed = append(listed, []string{spans(row[0])[0], spans(row[1])[0]})
	}
	require.NotEmpty(t, known)
	require.Equal(t, known, listed)
}
