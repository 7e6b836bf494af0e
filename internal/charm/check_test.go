package charm

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// journal answers for a worker that runs, each look at its log with the next of
// its lines and from the last on with that.
type journal struct {
	lines []string
	looks int
}

func (j *journal) Run(_ context.Context, c host.Command) ([]byte, error) {
	if c.Argv[0] != "journalctl" {
		return nil, nil
	}
	line := j.lines[min(j.looks, len(j.lines)-1)]
	j.looks++
	return []byte(line), nil
}

// After a restart of the web its workers reconnect some seconds later. Until then the status
// has no warning.
func TestHookWaitsForAReconnectingWorker(t *testing.T) {
	healthy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(healthy.Close)
	at, err := url.Parse(healthy.URL)
	require.NoError(t, err)
	const (
		registered = `{"message":"worker.beacon-runner.beacon.registered"}`
		lost       = `{"message":"worker.beacon-runner.failed","data":{"error":"wait: remote command exited without exit status or exit signal"}}`
	)
	settle := int(role.SettleTime / role.SettlePoll)
	silence := int((role.SettleTime + concourse.AttemptTime) / role.SettlePoll)
	for name, tc := range map[string]struct {
		lines []string
		port  string
		level string
		slept int
		want  string
	}{
		"registered":          {[]string{registered}, at.Port(), "info", 0, ""},
		"back in a moment":    {[]string{lost, lost, lost, registered}, at.Port(), "info", 3, ""},
		"just started":        {[]string{"", registered}, at.Port(), "info", 1, ""},
		"stays away":          {[]string{lost}, at.Port(), "info", settle, "Worker not registered at the web: wait: remote command exited without exit status or exit signal"},
		"logs no success":     {append(slices.Repeat([]string{lost}, settle+1), ""), at.Port(), "error", settle + 1, ""},
		"logs only its tries": {[]string{lost}, at.Port(), "error", silence, "Worker not registered at the web: wait: remote command exited without exit status or exit signal"},
		"says nothing of it":  {[]string{""}, at.Port(), "info", settle, "Worker not registered at the web yet"},
		"does not run":        {[]string{lost}, "9", "info", 0, "Worker not ready: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			hosttest.Put(t, r, concourse.OperatorEnvFile, fmt.Sprintf("CONCOURSE_HEALTHCHECK_BIND_PORT=%s\n", tc.port))
			slept := 0
			c := &Charm{Host: host.Host{Root: r, Runner: &journal{lines: tc.lines}, Clock: hosttest.Clock{T: hosttest.Now, Slept: func(time.Duration) { slept++ }}}}
			causes := c.Check(t.Context(), Desired{Worker: worker.Worker{Up: true, LogLevel: tc.level}}, Unchanged)
			require.Equal(t, tc.slept, slept)
			if tc.want == "" {
				require.Empty(t, causes)
				return
			}
			require.Len(t, causes, 1)
			require.Equal(t, status.Waiting, causes[0].Kind)
			require.True(t, strings.HasPrefix(causes[0].Text, tc.want), causes[0].Text)
		})
	}
}

func TestKubernetesIsCheckedThroughThePluginsStatus(t *testing.T) {
	const journal = " — run: juju ssh gpu/0 journalctl --unit concourse-gpu-device-plugin"
	for said, want := range map[string]string{
		"ActiveState=active\nStatusText=the kubelet knows the GPUs\nStatusErrno=0\n":              "",
		"ActiveState=active\nStatusText=cannot register amd.com/gpu at x: a=b\nStatusErrno=107\n": "no GPUs for Kubernetes: cannot register amd.com/gpu at x: a=b: without Kubernetes here set kubernetes=off" + journal,
		"ActiveState=failed\nStatusText=\nStatusErrno=0\n":                                        "no GPUs for Kubernetes: concourse-gpu-device-plugin.service is failed" + journal,
	} {
		run := hosttest.NewRunner(t)
		run.Answer("systemctl show", said)
		c := &Charm{Host: host.Host{Runner: run}, Event: juju.Event{Unit: "gpu/0"}}
		if cause := c.CheckKubernetes(t.Context(), worker.PluginUnit); cause == nil {
			require.Empty(t, want)
		} else {
			require.Equal(t, want, cause.String())
		}
	}
}
