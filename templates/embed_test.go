package templates

import (
	"os"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

func TestRenderRefusesAMissingValue(t *testing.T) {
	_, err := Render("containerd-launcher.tmpl", map[string]string{"RuntimeDir": "/x"})
	require.ErrorContains(t, err, "Containerd")
	_, err = Render("no-such.tmpl", nil)
	require.ErrorContains(t, err, "cannot read template no-such.tmpl")
}

// D48, D51: the launcher takes the release's own containerd, by the link that
// upgrades switch.
func TestLauncherPutsTheWrapperFirst_D48_D51(t *testing.T) {
	out, err := Render("containerd-launcher.tmpl", map[string]string{"RuntimeDir": "/opt/r", "Containerd": "/rel/bin/containerd"})
	require.NoError(t, err)
	require.Contains(t, string(out), "\nPATH=/opt/r:$PATH\n")
	require.Contains(t, string(out), "\nexec /rel/bin/containerd \"$@\"\n")
}

// systemd would remove the reports and leases of others with the folder.
func TestEndedServiceLeavesTheFolderInRun(t *testing.T) {
	for name, state := range map[string]bool{"concourse-pebble": true, "concourse-task-recorder": true,
		"concourse-gpu-device-plugin": false, "concourse-gpu-dra-driver": false, "../tools/packages/gpukit/gpukit-cdi": false} {
		unit, err := os.ReadFile(name + ".service")
		require.NoError(t, err)
		require.Contains(t, string(unit), "\nRuntimeDirectoryPreserve=yes\n", name)
		require.Regexp(t, "\nRuntimeDirectory="+path.Base(wellknown.RunDir)+"( cdi)?\n", string(unit), name)
		line := "\nStateDirectory=" + path.Base(wellknown.StateDir) + "\n"
		if state {
			require.Contains(t, string(unit), line, name)
		} else {
			require.NotContains(t, string(unit), line, name)
		}
	}
}

// Events and claims need the API server. A unit that is cut off only logs it.
func TestServicesOfKubernetesReachTheAPIServer(t *testing.T) {
	for _, name := range []string{"concourse-gpu-device-plugin", "concourse-gpu-dra-driver"} {
		unit, err := os.ReadFile(name + ".service")
		require.NoError(t, err)
		require.Regexp(t, "\nRestrictAddressFamilies=.*AF_INET AF_INET6\n", string(unit), name)
		require.NotRegexp(t, "\n(PrivateNetwork=yes|IPAddressDeny=)", string(unit), name)
	}
}
