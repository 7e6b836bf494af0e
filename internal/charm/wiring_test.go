package charm

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// set holds options.
type set = map[string]any

// fixture is a unit with options that change. Its files and its model stay as they are.
type fixture struct {
	root    host.Root
	model   *jujutest.Model
	options set // of each decision
	machine host.Runner
}

// decide returns the desired state with these options as texts by the name of the resource.
func (b fixture) decide(t *testing.T, options ...set) map[string]string {
	t.Helper()
	require.NoError(t, os.RemoveAll(b.root.Path(model.FactsFile)))
	b.model.Config = maps.Clone(b.options)
	for _, o := range options {
		maps.Copy(b.model.Config, o)
	}
	ctx := b.model.Begin(jujutest.Hook("config-changed"))
	defer ctx.Rollback()
	c := charmOf(t, b.root, b.model, ctx, b.machine)
	c.NewSecrets = func() (concourse.WebSecrets, error) { return roletest.WebSecrets(), nil }
	d, err := c.Decide(t.Context())
	require.NoError(t, err)
	require.Empty(t, d.Problems)
	all := map[string]string{"status": fmt.Sprint(d.Want.Causes), "ports": fmt.Sprint(d.Want.Web.Ports),
		"web": fmt.Sprintf("%+v", d.Want.Web), "worker": fmt.Sprintf("%+v", d.Want.Worker),
		"published": fmt.Sprintf("%+v", d.Want.Worker.GPUs)}
	if d.Want.Worker.Driver != nil {
		all["driver"] = fmt.Sprintf("%+v", *d.Want.Worker.Driver)
	}
	for _, r := range d.Want.Resources {
		name, text := nameOf(r)
		all[name] += text + "\n"
	}
	return all
}

// nameOf returns the path or name of a resource, and its content.
func nameOf(r plan.Resource) (name, text string) {
	switch r := r.(type) {
	case resource.File:
		if strings.HasSuffix(r.Path, ".env") {
			return r.Path, "\n" + strings.ReplaceAll(string(r.Data), `"`, "")
		}
		return r.Path, string(r.Data)
	case resource.Service:
		return r.Unit, fmt.Sprintf("up=%t %s", r.Up, r.Why)
	case release.Install:
		return "release", fmt.Sprintf("%+v", r)
	}
	v := reflect.ValueOf(r)
	for _, field := range []string{"Path", "Name"} {
		if f := v.FieldByName(field); v.Kind() == reflect.Struct && f.IsValid() && f.Kind() == reflect.String {
			return f.String(), fmt.Sprintf("%T%+v", r, r)
		}
	}
	return fmt.Sprintf("%T", r), fmt.Sprintf("%+v", r)
}

// with returns options with others over them.
func with(options, others set) set {
	all := maps.Clone(options)
	maps.Copy(all, others)
	return all
}

// has reports whether a state has the line of a wire.
func (w wire) has(state map[string]string) bool {
	return strings.Contains(state[w.resource], strings.TrimPrefix(w.line, "!"))
}

// An option that reaches no resource does nothing, however valid it is. Each wire from an
// option to a resource has a row, so that a cut one fails.
func TestEachOptionChangesTheDesiredState(t *testing.T) {
	fixtures := fixtures(t)
	rows := slices.Concat(commonWires(), webWires(t), variableWires(), workerWires())
	before := map[string]map[string]string{}
	for _, w := range rows {
		t.Run(fmt.Sprintf("%s %s %s", w.fixture, w.option, w.resource), func(t *testing.T) {
			b, key := fixtures[w.fixture], fmt.Sprint(w.fixture, w.with)
			if before[key] == nil {
				before[key] = b.decide(t, w.with)
			}
			without, got := before[key], b.decide(t, w.with, set{w.option: w.value})
			removed := strings.HasPrefix(w.line, "!")
			require.Equal(t, removed, w.has(without), "without %s=%v:\n%s", w.option, w.value, without[w.resource])
			require.Equal(t, !removed, w.has(got), "with %s=%v:\n%s", w.option, w.value, got[w.resource])
		})
	}
}

func TestEachOptionHasAWireOrAReason(t *testing.T) {
	data, err := os.ReadFile("../../config.yaml")
	require.NoError(t, err)
	var file struct{ Options map[string]any }
	require.NoError(t, yaml.Unmarshal(data, &file))
	known := slices.Collect(maps.Keys(elsewhere()))
	for _, w := range slices.Concat(commonWires(), webWires(t), variableWires(), workerWires()) {
		require.NotContains(t, elsewhere(), w.option)
		known = append(known, w.option)
	}
	slices.Sort(known)
	require.Equal(t, slices.Sorted(maps.Keys(file.Options)), slices.Compact(known))
}
