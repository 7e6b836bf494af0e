//go:build e2e

package lxd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

const cdiSpec = "/etc/cdi/amd.json"

// remedy runs the command for the LXD host that check-status shows.
func (u *unit) remedy(t *testing.T, begins string) {
	t.Helper()
	message := u.agent.ask(map[string]any{"action": "check-status"}).Action.Message
	_, command, found := strings.Cut(message, begins)
	require.True(t, found, message)
	command, _, _ = strings.Cut(begins+command, " (")
	command, _, _ = strings.Cut(command, ";")
	command, _, _ = strings.Cut(command, " — ")
	u.d.Run("", strings.Fields(command)...)
}

// described reports whether the unit's description of GPUs has one.
func (u *unit) described() bool {
	_, err := u.d.Inside(u.name, "grep -q renderD128 "+cdiSpec)
	return err == nil
}

// changes are what an operator does on the LXD host.
func (u *unit) changes(t *testing.T) {
	d := u.d
	d.Sub(t, "a GPU that is taken away while the unit runs is noticed without a hook", func(t *testing.T) {
		require.True(t, u.described())
		u.device("remove", "gpu0")
		require.Equal(t, []string{"/dev/kfd"}, u.nodes())
		u.eventually(func() bool { return !u.described() }, "the description of the GPUs still has it")
	})
	d.Sub(t, "the next hook reports that no GPU is passed through, and which action has the rest", func(t *testing.T) {
		u.hook("update-status")
		require.Contains(t, u.said(), "blocked: no AMD GPU passed through; 1 GPU missing: "+lxdhost.AMDPCI+"; more: juju run ")
		require.Contains(t, u.act("list-gpus"), "No GPU detected")
	})
	d.Sub(t, "that command passes the GPU through, which is noticed without a hook too", func(t *testing.T) {
		u.remedy(t, "lxc config device add ")
		u.eventually(u.described, "the description of the GPUs lacks it")
	})
	d.Sub(t, "the next hook makes the unit ready again", func(t *testing.T) {
		u.settled()
		require.Empty(t, u.failed())
		u.opened(t, "again")
	})
	d.Sub(t, "a device gpu without an id passes both vendors' GPUs, of which tasks get AMD's", func(t *testing.T) {
		u.device("remove", "gpu0")
		u.device("add", "all", "gpu", "gid=44")
		require.Equal(t, []string{"/dev/dri/card0", "/dev/dri/card1", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kfd"}, u.nodes())
		u.settled()
		detected := u.act("list-gpus")
		require.Contains(t, detected, "AMD GPU detected")
		require.Contains(t, detected, "NVIDIA GPU detected")
		u.opened(t, "both")
	})
	d.Sub(t, "with both passed, compute-runtime=auto asks for a choice", func(t *testing.T) {
		u.settle(map[string]any{"compute-runtime": "auto"})
		require.Contains(t, u.said(), "blocked: compute-runtime: set it to rocm or cuda; AMD and NVIDIA GPUs found")
	})
	d.Sub(t, "with AMD's alone, auto takes it", func(t *testing.T) {
		u.device("remove", "all")
		u.device("add", "gpu0", "gpu", "id="+lxdhost.AMDID, "gid=44")
		u.settled()
	})
	d.Sub(t, "with NVIDIA's alone, compute-runtime=rocm says which vendor there is", func(t *testing.T) {
		u.device("remove", "gpu0")
		u.device("add", "theirs", "gpu", "id="+lxdhost.NVIDIAID, "gid=44")
		u.settle(map[string]any{"compute-runtime": "rocm"})
		require.Contains(t, u.said(), "no AMD GPU passed through (only 1 NVIDIA)")
		require.Contains(t, u.act("list-gpus"), "NVIDIA GPU detected")
		u.device("remove", "theirs")
		u.device("add", "gpu0", "gpu", "id="+lxdhost.AMDID, "gid=44")
		u.settled()
	})
	d.Sub(t, "without kfd the status says what to run, and that makes the unit ready", func(t *testing.T) {
		d.Run("", "lxc", "profile", "device", "remove", "juju-charm", "kfd")
		u.hook("update-status")
		require.Contains(t, u.said(), "blocked: no /dev/kfd")
		u.remedy(t, "lxc config device add ")
		u.settled()
		u.opened(t, "kfd")
		u.device("remove", "kfd")
		d.Run(charmProfile(t), "lxc", "profile", "edit", "juju-charm")
		u.settled()
	})
	d.Sub(t, "LXD's default group is refused for tasks, with the command that gives the right one", func(t *testing.T) {
		u.device("unset", "gpu0", "gid")
		u.hook("update-status")
		require.Contains(t, u.said(), "blocked: tasks can't open /dev/dri/renderD128")
		u.remedy(t, "lxc config device set ")
		u.settled()
	})
}
