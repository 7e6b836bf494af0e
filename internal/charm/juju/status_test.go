package juju_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

func TestStatusIsShownAsWritten(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, _ *jujutest.Context, tools *juju.Tools) {
		for _, text := range []string{"", "-x looks like an option", "two\nlines", `"quoted" $HOME`} {
			require.NoError(t, tools.StatusSet(ctx, juju.Blocked, text))
			require.Equal(t, jujutest.StatusLine{Status: "blocked", Message: text}, m.Status())
		}
		require.Error(t, tools.StatusSet(ctx, "error", "x"))
		require.NoError(t, tools.StatusSet(ctx, juju.Active, "cut\x00 here"))
		require.Equal(t, "cut here", m.Status().Message)
		require.NoError(t, tools.ApplicationVersionSet(ctx, "7.14.2"))
		require.Equal(t, "7.14.2", m.Version)
	})
}

func TestPortsAndReboot(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, c *jujutest.Context, tools *juju.Tools) {
		require.NoError(t, tools.OpenPort(ctx, juju.TCP(9401)))
		require.NoError(t, tools.OpenPort(ctx, "8080-8088/udp"))
		ports, err := tools.OpenedPorts(ctx)
		require.NoError(t, err)
		require.Equal(t, []juju.Port{"9401/tcp", "8080-8088/udp"}, ports)
		require.NoError(t, tools.ClosePort(ctx, juju.TCP(9401)))
		require.NoError(t, tools.Reboot(ctx))
		require.NoError(t, c.Commit())
		require.Equal(t, []jujutest.OpenPort{{From: 8080, To: 8088, Protocol: "udp"}}, m.Ports)
		require.Equal(t, "after", m.Reboot)
	})
}

func TestLongLogIsSplitBetweenLinesAndCharacters(t *testing.T) {
	line := strings.Repeat("x", 99)
	for name, text := range map[string]string{
		"short":      "hello",
		"dash":       "-l looks like an option",
		"lines":      strings.TrimSpace(strings.Repeat(line+"\n", 1000)),
		"one line":   strings.Repeat("x", 200_000),
		"one part":   strings.Repeat("x", 32<<10),
		"characters": strings.Repeat("ß🦀", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			both(t, hook, func(t *testing.T, m *jujutest.Model, _ *jujutest.Context, tools *juju.Tools) {
				require.NoError(t, tools.Log(ctx, juju.Warning, text))
				var back []string
				for _, l := range m.Logs {
					require.Equal(t, "WARNING", l.Level)
					require.True(t, utf8.ValidString(l.Message))
					require.LessOrEqual(t, len(l.Message), 32<<10)
					back = append(back, l.Message)
				}
				sep := ""
				if name == "lines" {
					sep = "\n"
				}
				require.Equal(t, text, strings.Join(back, sep))
			})
		})
	}
}

func TestEmptyLogRunsNoTool(t *testing.T) {
	c := hook(jujutest.CaseModel(false))
	require.NoError(t, juju.New(c.Runner(nil)).Log(ctx, juju.Info, "\n"))
	require.Empty(t, c.Calls)
}

func action(m *jujutest.Model) *jujutest.Context {
	return m.BeginAction("diagnose", jujutest.CaseParams())
}

func TestActionResultsAreFlattened(t *testing.T) {
	both(t, action, func(t *testing.T, m *jujutest.Model, c *jujutest.Context, tools *juju.Tools) {
		params, err := tools.ActionGet(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"level": int64(2), "deep": map[string]any{"key": "v"}}, params)
		require.NoError(t, tools.ActionLog(ctx, "-half way"))
		require.NoError(t, tools.ActionSet(ctx, nil))
		require.NoError(t, tools.ActionSet(ctx, map[string]any{
			"plan": "1 install\n2 start\n", "count": 2, "ok": true,
			"gpus": []any{map[string]any{"name": "a=b"}, map[string]string{"name": "c"}}, "tags": []string{"x"},
		}))
		require.Equal(t, map[string]any{
			"plan": "1 install\n2 start\n", "count": "2", "ok": "true",
			"gpus": map[string]any{"0": map[string]any{"name": "a=b"}, "1": map[string]any{"name": "c"}}, "tags": map[string]any{"0": "x"},
		}, m.Actions[0].Results)
		require.Equal(t, []string{"-half way"}, m.Actions[0].Log)
		require.EqualError(t, tools.ActionSet(ctx, map[string]any{"stdout": 1}), `cannot run action-set: cannot set reserved action key "stdout"`)
		require.NoError(t, tools.ActionFail(ctx, "broken"))
		require.Equal(t, "broken", m.Actions[0].Message)
	})
}

// juju run prints a text as it is if YAML's literal form can have it.
func TestActionTextsArePrintedLineByLine(t *testing.T) {
	both(t, action, func(t *testing.T, m *jujutest.Model, c *jujutest.Context, tools *juju.Tools) {
		require.NoError(t, tools.ActionSet(ctx, map[string]any{"why": "task a  \n    12:00 start \n\t\n  b ▁▂█ ", "all": []string{"x \ny"}}))
		require.Equal(t, map[string]any{"why": "task a\n    12:00 start\n\n  b ▁▂█", "all": map[string]any{"0": "x\ny"}}, m.Actions[0].Results)
		printed, err := yaml.Marshal(m.Actions[0].Results)
		require.NoError(t, err)
		require.Contains(t, string(printed), "why: |-\n    task a\n        12:00 start\n\n      b ▁▂█\n")
	})
}

// Linux takes 128 KiB in one argument and 2 MiB in all.
func TestHugeActionResultsAreCutWithANote(t *testing.T) {
	both(t, action, func(t *testing.T, m *jujutest.Model, c *jujutest.Context, tools *juju.Tools) {
		huge := map[string]any{}
		for _, k := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
			huge[k] = strings.Repeat("x", 200_000)
		}
		require.NoError(t, tools.ActionSet(ctx, huge))
		got := m.Actions[0].Results
		require.Len(t, got, 26)
		require.Contains(t, got["z"], "[cut: 134464 bytes more]")
		require.Greater(t, len(c.Called("action-set")), 1)
	})
}
