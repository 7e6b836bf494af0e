package healthcheck

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Only the program's own end is evidence about the GPU.
func TestEndOfAHealthCheckIsItsResult(t *testing.T) {
	failure := func(code int, late time.Duration) error {
		return &host.CommandError{Argv: []string{"runc"}, Code: code, Timeout: late, Err: errors.New("signal: killed")}
	}
	for name, c := range map[string]struct {
		left  bool // by a run that was killed
		err   error
		log   string
		stuck error // of delete
		want  quarantine.HealthCheck
		out   string
	}{
		"passed":               {want: quarantine.HealthCheck{End: quarantine.Passed}},
		"passed after a crash": {left: true, want: quarantine.HealthCheck{End: quarantine.Passed}},
		"failed":               {err: failure(3, 0), want: quarantine.HealthCheck{End: quarantine.Failed, Exit: 3}},
		"failed, with a warning of runc": {err: failure(3, 0), log: `{"level":"warning","msg":"cgroup v1"}` + "\nno JSON\n",
			want: quarantine.HealthCheck{End: quarantine.Failed, Exit: 3}},
		"too late": {err: failure(-1, time.Minute), want: quarantine.HealthCheck{End: quarantine.Failed, Late: true, Exit: -1}},
		"runc does not start it": {err: failure(1, 0), log: `{"level":"error","msg":"no such file"}` + "\n",
			want: quarantine.HealthCheck{End: quarantine.NotRun, Reason: "/opt/release/bin/runc does not start it: no such file"}},
		"runc is killed": {err: failure(-1, 0), want: quarantine.HealthCheck{End: quarantine.NotRun, Reason: `cannot run "runc": signal: killed`}},
		"another error":  {err: errors.New("no process left"), want: quarantine.HealthCheck{End: quarantine.NotRun, Reason: "no process left"}},
		"its processes hang": {stuck: errors.New("device busy"), want: quarantine.HealthCheck{End: quarantine.Passed},
			out: "\n(its processes do not end: device busy)\n"},
		"those of the last run hang": {left: true, stuck: errors.New("device busy"),
			want: quarantine.HealthCheck{End: quarantine.NotRun,
				Reason: "the processes of the last health check hang in the driver: reboot the unit: device busy"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t)
			j, err := prepared(r, slot, command)
			require.NoError(t, err)
			const bundle = Dir + "/concourse-gpu-health-check-0000-43-00.0"
			if c.left {
				require.NoError(t, r.MkdirAll(bundle+"/state", 0o700))
			}
			run := hosttest.NewRunner(t)
			run.On(j.Runc, func(cmd host.Command) (string, error) {
				if cmd.Argv[3] == "delete" {
					return "", c.stuck
				}
				require.Equal(t, 5*time.Minute, cmd.Deadline)
				require.False(t, r.Exists(bundle+"/log.json"), "the log of an earlier run")
				var s specs.Spec
				data, err := r.ReadFile(bundle + "/config.json")
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(data, &s))
				require.Equal(t, command, s.Process.Args[0])
				hosttest.Put(t, r, bundle+"/log.json", c.log)
				return "sum\x1b\n", c.err
			})
			h := host.Host{Root: r, Runner: run, Clock: hosttest.Clock{T: began}}
			hosttest.Put(t, r, bundle+"/log.json", `{"level":"error","msg":"old"}`)
			got, output := j.Run(t.Context(), h, 5*time.Minute)
			want := c.want
			want.Name, want.Command, want.Began, want.Ended = slot, command, began, began
			want.Reason = strings.Replace(want.Reason, runc, r.Path(runc), 1)
			require.Equal(t, want, got)
			if !c.left || c.stuck == nil {
				require.Equal(t, "sum?\n"+c.out, output)
			}
			deletes := 0
			for _, line := range run.Ran {
				if strings.Contains(line, " delete --force concourse-gpu-health-check-0000-43-00.0") {
					deletes++
				}
			}
			require.Equal(t, map[bool]int{false: 1, true: 2}[c.left && c.stuck == nil], deletes)
		})
	}
}
