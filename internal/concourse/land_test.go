package concourse

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

const (
	landSignal = "systemctl kill --kill-whom=main --signal=SIGUSR1 concourse-worker.service"
	stopUnit   = "systemctl stop concourse-worker.service"
)

// A worker with a web that is away ends with an error, so systemd starts it again: a worker
// that would take tasks when the web is back.
func TestLandedWorkerIsStopped(t *testing.T) {
	const web = "0 0 10.0.0.2:40000 10.0.0.1:2222\n"
	for name, tt := range map[string]struct {
		looks  int // until the unit has the state end
		end    string
		web    string
		limit  time.Duration
		told   int
		failed string // "" for a worker that was stopped
	}{
		"its tasks end":   {3, "ActiveState=inactive\nSubState=dead\n", web, time.Minute, 1, ""},
		"it starts again": {20, "ActiveState=activating\nSubState=auto-restart\n", web, time.Minute, 2, ""},
		"no web for long": {10000, "", "", time.Hour, 11, ""},
		"no web for a while": {10000, "", "", time.Minute, 2,
			"the worker has no connection to a web; each hook repeats the signal"},
		"its tasks do not end": {10000, "", web, time.Minute, 2,
			"its tasks did not finish within 1m0s; it takes no new ones, and stops when they end"},
	} {
		t.Run(name, func(t *testing.T) {
			root := hosttest.Root(t)
			hosttest.Put(t, root, EnvFile, "CONCOURSE_TSA_HOST=10.0.0.1:2222\n")
			r := draining(t, tt.looks, tt.end).Answer("ss --no-header", tt.web)
			lands, err := Land(t.Context(), host.Host{Root: root, Runner: r, Clock: hosttest.Clock{Slept: func(time.Duration) {}}}, tt.limit)
			require.True(t, lands)
			told := 0
			for _, command := range r.Ran {
				if command == landSignal {
					told++
				}
			}
			require.Equal(t, tt.told, told)
			if tt.failed == "" {
				require.NoError(t, err)
				require.Equal(t, stopUnit, r.Ran[len(r.Ran)-1])
				return
			}
			require.EqualError(t, err, tt.failed)
			require.NotContains(t, r.Ran, stopUnit)
		})
	}
}

// Only a worker that did not get the signal takes tasks after an error.
func TestWorkerLandsAfterItsSignal(t *testing.T) {
	for command, want := range map[string]bool{"systemctl kill": false, "systemctl show": true, "systemctl stop": true} {
		root := hosttest.Root(t)
		hosttest.Put(t, root, EnvFile, "CONCOURSE_TSA_HOST=10.0.0.1:2222\n")
		r := draining(t, 0, "ActiveState=inactive\nSubState=dead\n").Fail(command, 1, "Connection timed out")
		lands, err := Land(t.Context(), host.Host{Root: root, Runner: r, Clock: hosttest.Clock{}}, time.Minute)
		require.ErrorContains(t, err, "Connection timed out", command)
		require.Equal(t, want, lands, command)
	}
}

func TestLandingWorkerGetsTheSignalAgain(t *testing.T) {
	for want, state := range map[string]resource.UnitState{
		landSignal: running, stopUnit: {Active: "activating", Sub: "auto-restart"}, "": gone,
	} {
		r := draining(t, 0, "")
		require.NoError(t, resourcetest.Apply(t, host.Host{Root: hosttest.Root(t), Runner: r}, Landing{State: state}))
		if want == "" {
			require.Empty(t, r.Ran)
			continue
		}
		require.Equal(t, []string{want}, r.Ran)
	}
}
