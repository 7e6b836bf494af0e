package demo

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

func shownBy(t *testing.T, show func(d *demo)) string {
	t.Helper()
	var b strings.Builder
	d := &demo{}
	d.screen = newScreen(&b, func(string) string { return "" }, func(err error) { require.NoError(t, err) })
	show(d)
	return b.String()
}

func TestLinesFitEightyColumns(t *testing.T) {
	out := shownBy(t, func(d *demo) {
		d.screen.title("a title")
		d.screen.prose(strings.Repeat("word ", 40))
		d.screen.item("status", "%s", strings.Repeat("long — words ", 20))
		d.screen.mark(failed, "%s", strings.Repeat("reason ", 30))
	})
	require.Contains(t, out, "\n== a title "+strings.Repeat("=", 69)+"\n")
	require.Contains(t, out, "\n  FAILED    reason ")
	require.Contains(t, out, "\n            reason ", "what follows stands below")
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), columns, line)
	}
}

func TestFailedStepLooksOtherThanTheRest(t *testing.T) {
	r := sandbox.Result{Logs: []jujutest.LogLine{
		{Level: "INFO", Message: "flight:7: plan:\n1/4 fetch apt key /k (missing)\n2/4 install tool (not (yet) installed)\n3/4 write /a (missing)\n4/4 write /a/b (missing)"},
		{Level: "WARNING", Message: "flight:7: could not fetch apt key /k: no route"},
		{Level: "WARNING", Message: "flight:7: did not install tool: not tried"},
	}}
	require.Equal(t, "  ok        2 of 4 steps done\n  failed    1/4 fetch apt key /k (missing): no route\n  not run   2/4, which need it; the worker needs none of them\n",
		shownBy(t, func(d *demo) { d.steps(r) }))
	require.Equal(t, "  failed    1/4 fetch apt key /k (missing): no route\n  not run   2/4 install tool (not (yet) installed)\n  ok        3/4 write /a (missing)\n  ok        4/4 write /a/b (missing)\n",
		shownBy(t, func(d *demo) { d.verbose = true; d.steps(r) }))
	require.Equal(t, "  ok        nothing to do\n", shownBy(t, func(d *demo) { d.steps(sandbox.Result{}) }))
}

func TestFailureThatTheDemoStagesIsMarked(t *testing.T) {
	r := sandbox.Result{Logs: []jujutest.LogLine{
		{Level: "INFO", Message: "config-changed: plan:\n1/2 fetch apt key /k (missing)\n2/2 write /a (missing)"},
		{Level: "WARNING", Message: "config-changed: could not fetch apt key /k: Get \"" + noServer + "/k\": refused"},
	}}
	for _, verbose := range []bool{false, true} {
		out := shownBy(t, func(d *demo) { d.verbose = verbose; d.steps(r) })
		require.Contains(t, out, "  failed    staged: 1/2 fetch apt key /k (missing): Get ")
		require.Contains(t, out, "\n  staged    this failure, ")
	}
}

type closed struct{ writes int }

func (c *closed) Write([]byte) (int, error) {
	c.writes++
	return 0, errors.New("closed")
}

func TestNothingIsWrittenAfterAClosedPipe(t *testing.T) {
	var heard []error
	c := &closed{}
	s := newScreen(c, func(string) string { return "" }, func(err error) { heard = append(heard, err) })
	s.title("a")
	s.item("b", "c")
	require.Len(t, heard, 1)
	require.Equal(t, 1, c.writes)
}

func TestSummaryHasALineForEachScene(t *testing.T) {
	var scenes []scene
	for _, name := range []string{"a worker", "the same hook again", "GPU metrics", "the wrong vendor", "a task"} {
		scenes = append(scenes, scene{name: name})
	}
	outcomes := map[string]outcome{"a worker": {passed, "active"}, "a task": {leftOut, "no runc"}}
	out := shownBy(t, func(d *demo) { d.scenes, d.outcomes = scenes, outcomes; d.summary(nil) })
	require.Equal(t, 5, strings.Count(out, "\n  "))
	require.Contains(t, out, "== Shown ==")
	require.Contains(t, out, "\n  ok        a worker: active\n  not run   the same hook again\n")
	require.Contains(t, out, "\n  left out  a task: no runc\n")
	require.Contains(t, shownBy(t, func(d *demo) { d.summary(errors.New("x")) }), "== Stopped ==")
}

func TestReadingsOfMetrics(t *testing.T) {
	values, info, series := readings("# HELP x y\nrocm_gpu_info{gfx=\"gfx1100\",name=\"AMD X\"} 1\nrocm_gpu_temperature{gpu=\"0\"} 51\nup 1\nrocm_power_usage{gpu=\"0\"} x\n")
	require.Equal(t, map[string]float64{"rocm_gpu_temperature": 51}, values)
	require.Equal(t, "AMD X", info["name"])
	require.Equal(t, 4, series)
	require.Equal(t, "5.8 GiB", withUnit(5.8*(1<<30), "GiB"))
	require.Equal(t, "17 %", withUnit(17, "%"))
	require.Equal(t, "100", withUnit(100, ""))
}
