package concourse

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestWebLimitsTheTasksOfAWorker(t *testing.T) {
	for strategies, want := range map[string]string{
		"":                "limit-active-tasks,volume-locality",
		"volume-locality": "limit-active-tasks,volume-locality",
		"fewest-build-containers,limit-active-volumes": "limit-active-tasks,fewest-build-containers,limit-active-volumes",
		"volume-locality,limit-active-tasks":           "volume-locality,limit-active-tasks",
	} {
		require.True(t, Limitable(strategies))
		c := WebConfig{TaskLimit: 4, Options: map[string]string{StrategyKey: strategies}, OptionKeys: []string{StrategyKey}}
		require.Equal(t, want, c.Env()[StrategyKey], strategies)
		require.Equal(t, "4", c.Env()[TaskLimitKey], strategies)
		require.Equal(t, strategies, c.Options[StrategyKey], "the options stay as they are")
		c.TaskLimit = 0
		require.Equal(t, strategies, c.Env()[StrategyKey], strategies)
		require.NotContains(t, c.Env(), TaskLimitKey)
	}
	require.False(t, Limitable("random"))
}

// The operator may have his own limit in the file: it is the charm's to take away only if
// the charm wrote it.
func TestOperatorsOwnLimitStays(t *testing.T) {
	own := []byte("CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=7\n")
	require.True(t, SetsEnv(own, TaskLimitKey))
	require.False(t, SetsEnv([]byte("#CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=7\nA=b\n"), TaskLimitKey))
	for _, c := range []struct {
		config WebConfig
		want   string
	}{
		{WebConfig{}, "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=7\n"},
		{WebConfig{Noted: []string{TaskLimitKey}}, ""},
		{WebConfig{Noted: []string{"CONCOURSE_OTHER"}}, "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=7\n"},
		{WebConfig{Noted: []string{TaskLimitKey}, TaskLimit: 4}, "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=4\n"},
	} {
		f, err := c.config.File(own)
		require.NoError(t, err)
		if c.want == "" {
			require.NotContains(t, string(f.Data), TaskLimitKey)
		} else {
			require.Contains(t, string(f.Data), c.want)
		}
	}
}

func TestHelpOfTheReleaseShowsWhetherAWorkerLimitsItself(t *testing.T) {
	for name, c := range map[string]struct {
		help string
		want bool
	}{
		"8.2.5":              {"          --name=             The name\n                             to set\n", false},
		"with the limit":     {"          --name=             The name\n          --max-active-tasks= Maximum\n                              [$CONCOUR-\n                              SE_MAX_AC-\n", true},
		"on a wide terminal": {"      --max-active-tasks=   Maximum number of tasks. [$CONCOURSE_MAX_ACTIVE_TASKS]\n", true},
		"the web's own only": {"      --max-active-tasks-per-worker=   Maximum, see --max-active-tasks= [$CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER]\n", false},
	} {
		r := hosttest.NewRunner(t)
		h := host.Host{Root: host.Root(t.TempDir()), Runner: r}
		command := h.Path(release.BinDir+"/concourse") + " worker --help"
		r.Answer(command, c.help)
		got, err := LimitsItself(context.Background(), h)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		r.Fail(command, 1, "exec format error")
		got, err = LimitsItself(context.Background(), h)
		require.Error(t, err)
		require.False(t, got)
	}
}

func TestWorkerTakesAtMostMaxTasks(t *testing.T) {
	require.Equal(t, "4", WorkerConfig{MaxTasks: 4}.Env()["CONCOURSE_MAX_ACTIVE_TASKS"])
	require.NotContains(t, WorkerConfig{}.Env(), "CONCOURSE_MAX_ACTIVE_TASKS")
	f, err := WorkerConfig{Name: "w"}.File([]byte("CONCOURSE_MAX_ACTIVE_TASKS=4\n"))
	require.NoError(t, err)
	require.NotContains(t, string(f.Data), "CONCOURSE_MAX_ACTIVE_TASKS")
}
