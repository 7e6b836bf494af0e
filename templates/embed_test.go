package templates

import (
	"testing"

	"github.com/stretchr/testify/require"
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
