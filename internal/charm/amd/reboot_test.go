package amd

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const activate = "it would activate amdgpu 6.10.5 (running 6.8.5)"

// B15: one attempt for a reason, whatever boot it is, until it no longer exists.
func TestRebootIsRequestedOnce(t *testing.T) {
	r := hosttest.Root(t)
	for i, c := range []struct {
		reason, boot string
		due          bool
	}{
		{activate, "b1", true},
		{activate, "b1", false}, // the hook ran again before the machine went down
		{activate, "b2", false}, // it did not help
		{"another", "b2", true},
		{activate, "b3", false},
	} {
		due, err := RebootDue(r, c.reason, c.boot)
		require.NoError(t, err)
		require.Equal(t, c.due, due, i)
	}
	require.NoError(t, ClearReboots(r))
	due, err := RebootDue(r, activate, "b4")
	require.NoError(t, err)
	require.True(t, due, "it was not needed in between")
}

// What can't be noted, or read, is never followed by a reboot.
func TestUnrecordedRebootIsNotRequested(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, RebootFile, "{")
	due, err := RebootDue(r, activate, "b1")
	require.False(t, due)
	require.ErrorContains(t, err, "look at "+RebootFile+" and remove it")

	r = hosttest.Root(t)
	hosttest.Put(t, r, "/var/lib/concourse-ci-machine", "a file where the folder should be")
	due, err = RebootDue(r, activate, "b1")
	require.False(t, due)
	require.Error(t, err)

	for _, c := range [][2]string{{"", "b1"}, {activate, ""}} {
		due, err = RebootDue(r, c[0], c[1])
		require.False(t, due)
		require.Error(t, err)
	}
}

func TestPendingRebootNamesItsFix(t *testing.T) {
	r := hosttest.Root(t)
	pending := func(reason string, f DriverFacts, w Wanted) string { return RebootPending(r, reason, f, w).String() }
	metal, lxd := DriverFacts{Kind: Metal, BootID: "b1"}, DriverFacts{Kind: LXD, BootID: "b1"}
	require.Contains(t, pending(activate, lxd, Wanted{AllowReboot: true}), "reboot the LXD host of this container")
	require.Contains(t, pending(activate, DriverFacts{Kind: OtherContainer}, Wanted{}), "reboot the host of this container")
	require.Equal(t, "reboot needed: "+activate+" — juju config <application> allow-reboot=true — or run: juju ssh <unit> sudo reboot", pending(activate, metal, Wanted{}))
	require.Contains(t, pending(activate, metal, Wanted{AllowReboot: true}), "it is requested")
	_, err := RebootDue(r, activate, "b1")
	require.NoError(t, err)
	require.Contains(t, pending(activate, metal, Wanted{AllowReboot: true}), "it was requested")
	metal.BootID = "b2"
	require.Contains(t, pending(activate, metal, Wanted{AllowReboot: true}), "one reboot did not help")
	require.NoError(t, os.WriteFile(r.Path(RebootFile), []byte("{"), 0o600))
	require.Contains(t, pending(activate, metal, Wanted{}), RebootFile)
}
