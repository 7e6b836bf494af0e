package concourse

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	registeredLine = `{"timestamp":"2026-01-02T03:04:05Z","level":"info","source":"worker","message":"worker.beacon-runner.beacon.registered","data":{"session":"4.1.1"}}` + "\n"
	failedLine     = `{"timestamp":"2026-01-02T03:04:09Z","level":"error","source":"worker","message":"worker.beacon-runner.failed","data":{"error":"failed to dial: all hosts unreachable","session":"4.1"}}` + "\n"
)

func TestRegistrationIsTheLatestLine(t *testing.T) {
	for in, want := range map[string]Registration{
		registeredLine:              {State: Registered},
		failedLine:                  {State: Lost, Why: "failed to dial: all hosts unreachable"},
		failedLine + registeredLine: {State: Registered},
		registeredLine + failedLine: {State: Lost, Why: "failed to dial: all hosts unreachable"},
		"":                          {State: Unknown},
		"-- No entries --\n":        {State: Unknown},
		"worker.beacon-runner.beacon.registered\n":                                     {State: Unknown},
		`{"message":"other","data":{"text":"worker.beacon-runner.beacon.registered"}}`: {State: Unknown},
		`{"message":"worker.beacon-runner.failed","data":{"error":{"code":1}}}`:        {State: Lost},
	} {
		require.Equal(t, want, beacon.ParseRegistration([]byte(in)), in)
	}
}

func TestRegistrationAsksForTheRunningProcessOnly(t *testing.T) {
	id := strings.Repeat("0a", 16)
	r := hosttest.NewRunner(t).Answer("journalctl", registeredLine)
	got, err := CheckRegistration(context.Background(), r, id, LogsRegistrations)
	require.NoError(t, err)
	require.Equal(t, Registered, got.State)
	require.Equal(t, []string{
		`journalctl --unit concourse-worker.service --output cat --no-pager --reverse --lines 1 --grep worker\.beacon-runner\.(beacon\.registered|failed) _SYSTEMD_INVOCATION_ID=` + id,
	}, r.Asked)
	require.Empty(t, r.Ran)
}

// At log-level=error only failures are in the log. One of an hour ago, when the web was
// restarted, is over.
func TestRegistrationThatIsNotLoggedIsLostForAMinute(t *testing.T) {
	r := hosttest.NewRunner(t).Answer("journalctl", failedLine)
	got, err := CheckRegistration(t.Context(), r, "", LogsFailures)
	require.NoError(t, err)
	require.Equal(t, Lost, got.State)
	require.Contains(t, r.Asked[0], " --since -60s")
}

func TestRegistrationIsUnknownWithoutALine(t *testing.T) {
	r := hosttest.NewRunner(t).Fail("journalctl", 1, "")
	got, err := CheckRegistration(context.Background(), r, "", LogsRegistrations)
	require.NoError(t, err)
	require.Equal(t, Registration{State: Unknown}, got)
	require.NotContains(t, r.Asked[0], "INVOCATION")

	got, err = CheckRegistration(context.Background(), hosttest.NewRunner(t).Fail("journalctl", 1, "Failed to open journal"), "", LogsRegistrations)
	require.ErrorContains(t, err, "cannot read the registration")
	require.Equal(t, Unknown, got.State)
}

func FuzzParseRegistration(f *testing.F) {
	f.Add([]byte(registeredLine))
	f.Add([]byte(failedLine + "{\"message\":1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := beacon.ParseRegistration(data)
		if got.State != Registered && got.State != Lost && got.State != Unknown || strings.Contains(got.Why, "\n") {
			t.Fatalf("%+v", got)
		}
	})
}
