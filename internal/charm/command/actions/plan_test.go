package actions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

func TestGPUListOfEveryHost(t *testing.T) {
	var text, list strings.Builder
	for _, name := range hosttest.HostNames() {
		c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, name))}}
		text.WriteString("== " + name + "\n")
		require.NoError(t, c.ListGPUs(t.Context(), &text, term.Format{}))
		list.WriteString("// " + name + "\n")
		require.NoError(t, c.ListGPUs(t.Context(), &list, term.Format{JSON: true}))
	}
	hosttest.Golden(t, "testdata/list.golden", text.String())
	hosttest.Golden(t, "testdata/list-json.golden", list.String())
}

// plan shows what the next hook would do, and the problems of the unit. Options come first.
func TestPlanShowsProblemsBeforeSteps(t *testing.T) {
	r := hosttest.Host(t, "nvidia-only")
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, r), CharmDir: hosttest.CharmDir(t), NewID: func() string { return "0badcafe" }}}
	c.Host.Runner = hosttest.NewMachine(t)
	shown := func(f model.Facts) string {
		t.Helper()
		require.NoError(t, model.Save(r, model.Facts{}, f))
		var b strings.Builder
		require.NoError(t, c.ShowPlan(t.Context(), &b))
		return b.String()
	}
	require.EqualError(t, c.ShowPlan(t.Context(), nil), "cannot plan: no hook has run on this machine yet")
	got := shown(model.Facts{Unit: "concourse-ci-machine/0", Config: map[string]any{"mode": "worker", "tag": "a b", "log-level": "loud"}})
	require.Equal(t, "nothing is done until these options are right:\n"+
		"  log-level: \"loud\" is not one of debug, info, warn, error, fatal\n"+
		"  tag: \"a b\" is not a tag: want words with commas between them, without white space or quotes\n", got)

	got = shown(model.Facts{Unit: "concourse-ci-machine/0", Config: map[string]any{"mode": "worker", "compute-runtime": "rocm"}})
	require.Contains(t, got, "blocked: no AMD GPU passed through (only 1 NVIDIA) — on the LXD host run: lxc config device add ")
	require.Contains(t, got, "waiting: Waiting for a web — run: juju integrate ")
	require.Contains(t, got, " download Concourse 8.2.5 (no release is installed)\n")
	require.Less(t, strings.Index(got, "waiting: "), strings.Index(got, "1/"))
	require.False(t, r.Exists("/var/lib/concourse"))
}

func TestFailedActionsReportTheError(t *testing.T) {
	m := jujutest.New("concourse-ci-machine/0")
	m.CharmDir = hosttest.CharmDir(t)
	r := hosttest.Host(t, "amd")
	run := func(name string) *jujutest.Action {
		t.Helper()
		ctx := m.BeginAction(name, nil)
		require.NoError(t, actionsOf(t, r, m, ctx, hosttest.NewMachine(t)).Action(t.Context()))
		require.NoError(t, ctx.Commit())
		return m.Actions[len(m.Actions)-1]
	}
	m.Config = map[string]any{"mode": "both"}
	a := run("plan")
	require.Equal(t, "completed", a.Status)
	require.Contains(t, a.Results["plan"], "nothing is done until these options are right:\n  mode: ")
	require.Equal(t, "0", a.Results["steps"])
	require.False(t, r.Exists(model.FactsFile), "an action remembers nothing")

	hosttest.Put(t, r, "/var/lib/concourse/releases", "a file")
	m.Config = map[string]any{"mode": "worker"}
	a = run("plan")
	require.Equal(t, "failed", a.Status)
	require.Contains(t, a.Message, "/var/lib/concourse/releases")
	a = run("backup")
	require.Equal(t, `cannot run action "backup": no such action`, a.Message)
}
