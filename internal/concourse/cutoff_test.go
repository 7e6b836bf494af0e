package concourse

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestCutOff(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.5":        "ss --no-header --tcp --numeric --kill state established dst 10.0.0.5 sport = :2222",
		"::ffff:10.0.0.5": "ss --no-header --tcp --numeric --kill state established dst 10.0.0.5 sport = :2222",
		"fd00::5":         "ss --no-header --tcp --numeric --kill state established dst [fd00::5] sport = :2222",
		"fe80::5%eth0":    "ss --no-header --tcp --numeric --kill state established dst [fe80::5] sport = :2222",
	} {
		require.Equal(t, want, CutOff(addr).String())
		require.False(t, CutOff(addr).ReadOnly)
	}
}

// D19: a worker that has left is cut off if that is possible; otherwise a remark reports it
// and nothing more fails.
func TestDisconnect_D19(t *testing.T) {
	const list, kill = "ss --no-header --tcp --numeric state", "ss --no-header --tcp --numeric --kill"
	d := Disconnect{Addr: "10.0.0.5", Why: "gpu/0 has gone"}
	for name, c := range map[string]struct {
		script func(r *hosttest.Runner)
		steps  int
		remark string
	}{
		"not connected": {func(r *hosttest.Runner) { r.Answer(list, "").Answer(kill, "") }, 1, ""},
		"connected": {func(r *hosttest.Runner) {
			there := "0 0 10.0.0.2:2222 10.0.0.5:40000\n"
			r.On(list, func(host.Command) (string, error) { return there, nil })
			r.On(kill, func(host.Command) (string, error) { there = ""; return "", nil })
		}, 1, ""},
		"the kernel can't": {func(r *hosttest.Runner) {
			r.Answer(list, "0 0 10.0.0.2:2222 10.0.0.5:40000\n").Answer(kill, "")
		}, 1, "the worker at 10.0.0.5 keeps its connection until it restarts: they are still there after ss --kill, which needs CAP_NET_ADMIN and a kernel with CONFIG_INET_DIAG_DESTROY"},
		"no ss": {func(r *hosttest.Runner) {
			r.Fail(list, -1, "not found").Fail(kill, -1, "not found")
		}, 1, "the worker at 10.0.0.5 keeps its connection until it restarts: cannot run"},
	} {
		r := hosttest.NewRunner(t)
		c.script(r)
		h := host.Host{Root: hosttest.Root(t), Runner: r}
		p, err := plan.Diff(context.Background(), h, d)
		require.NoError(t, err, name)
		require.Len(t, p, c.steps, name)
		require.Empty(t, r.Ran, "%s: looking changes nothing", name)
		notes, err := p.Apply(context.Background(), nil)
		require.NoError(t, err, name)
		if c.remark == "" {
			require.Empty(t, notes, name)
			continue
		}
		require.ErrorContains(t, notes[0].Err, c.remark, name)
	}
	_, err := Disconnect{Addr: "some.host"}.Diff(context.Background(), host.Host{})
	require.EqualError(t, err, `cannot end connections of "some.host": it is not an IP address`)
}
