//go:build e2e

package packages

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
)

// inNetwork runs commands in the network of a process.
type inNetwork struct{ pid int }

func (n inNetwork) Run(ctx context.Context, c host.Command) ([]byte, error) {
	c.Argv = append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", n.pid)}, c.Argv...)
	return host.Exec{}.Run(ctx, c)
}

// ofTasks adds what Concourse and its CNI plugins add for the network of tasks, and rules of
// others.
const ofTasks = `for t in iptables ip6tables; do
	ip=10.80.0.2 other=10.9.0.7
	[ $t = iptables ] || { ip=fd9c::2 other=fd00::7; }
	$t -N CONCOURSE-OPERATOR
	$t -A CONCOURSE-OPERATOR -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
	$t -A INPUT -i concourse0 -j REJECT
	$t -I INPUT 1 -s $ip -j DROP
	$t -A INPUT -i lo -j ACCEPT
	$t -N CNI-FORWARD
	$t -I FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
	$t -I CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CONCOURSE-OPERATOR
	$t -A CNI-FORWARD -d $ip -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
	$t -A CNI-FORWARD -s $ip -j ACCEPT
	[ "$1" = alone ] || $t -A CNI-FORWARD -s $other -j ACCEPT
	$t -t nat -N CNI-0123456789abcdef01234567
	$t -t nat -A CNI-0123456789abcdef01234567 -d $ip -m comment --comment 'name: "concourse" id: "a"' -j ACCEPT
	$t -t nat -A POSTROUTING -s $ip -m comment --comment 'name: "concourse" id: "a"' -j CNI-0123456789abcdef01234567
	$t -t nat -A POSTROUTING -s $other -m comment --comment 'name: "podman" id: "b"' -j MASQUERADE
done`

// endTask removes the rules of the task, as its end does.
const endTask = `for t in iptables ip6tables; do
	$t-save | sed -n '/^[*C]/p; /10\.80\.\|fd9c/s/^-A/-D/p' | $t-restore --noflush
	$t -t nat -X CNI-0123456789abcdef01234567
done`

func TestRemovalLeavesNoRuleOfIptablesForTasks(t *testing.T) {
	need(t)
	for _, how := range []string{"alone", "beside others", "task ends before the step"} {
		process := exec.Command("sleep", "infinity")
		process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		require.NoError(t, process.Start())
		t.Cleanup(func() { process.Process.Kill(); process.Wait() })
		network := inNetwork{process.Process.Pid}
		h := host.Host{Root: "/", Runner: network, Clock: host.WallClock{}}
		_, err := network.Run(t.Context(), host.Command{Argv: []string{"sh", "-ec", ofTasks, "sh", how}})
		require.NoError(t, err)

		p, err := worker.NoTaskNetwork{Why: "test"}.Diff(t.Context(), h)
		require.NoError(t, err)
		require.Len(t, p, 2)
		if how == "task ends before the step" {
			_, err = network.Run(t.Context(), host.Command{Argv: []string{"sh", "-ec", endTask}})
			require.NoError(t, err)
		}
		_, err = p.Apply(t.Context(), nil)
		require.NoError(t, err)

		for _, family := range []string{"iptables", "ip6tables"} {
			out, err := network.Run(t.Context(), host.Command{Argv: []string{family + "-save"}})
			require.NoError(t, err)
			require.NotRegexp(t, `(?i)concourse|10\.80\.|fd9c|CNI-0`, string(out))
			require.Contains(t, string(out), "-A INPUT -i lo -j ACCEPT")
			require.Contains(t, string(out), `name: \"podman\"`)
			require.Equal(t, how != "alone", strings.Contains(string(out), ":CNI-FORWARD"), "%s", out)
		}
		p, err = worker.NoTaskNetwork{Why: "test"}.Diff(t.Context(), h)
		require.NoError(t, err)
		require.Empty(t, p, "a second time")
	}
}
