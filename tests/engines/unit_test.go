//go:build e2e

package engines

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/cdi"
	"concourse-ci-machine/internal/oci"
)

// On a unit the charm's file says what there is to get, for Podman as for Concourse.
func TestContainersOnAUnitGetOfItsGPUsAlone(t *testing.T) {
	needPackage(t, "podman", "podman")
	describe(t)
	p := podman{root: filepath.Join(dir, "podman"), runRoot: "/run/podman-test"}
	p.load(t)
	runc, err := exec.LookPath("runc")
	require.NoError(t, err)
	unit := oci.Config{Runtime: runc, Containers: oci.Asked, Specs: []string{cdi.Path}, Devices: []string{"amd.com/gpu=1"}, Visible: []string{"AMD_VISIBLE_DEVICES"},
		Folders: &oci.Folders{Root: "/srv", Containers: oci.All}}
	write := func() {
		data, err := json.Marshal(unit)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(oci.DefaultConfig), 0o755))
		require.NoError(t, os.WriteFile(oci.DefaultConfig, data, 0o600))
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(oci.DefaultConfig))) })
	write()
	for words, want := range map[string]string{"-e AMD_VISIBLE_DEVICES=all": second, "-e GPU_COUNT=1": second, "": nothing} {
		out, err := p.probe("--runtime "+wrapper(), words)
		require.NoError(t, err, out)
		require.Equal(t, want, out, words)
	}
	out, err := p.probe("--runtime "+wrapper(), "-e AMD_VISIBLE_DEVICES=0")
	require.Error(t, err)
	require.Contains(t, out, `"0" is no GPU that this unit gives; there are: 1 [container `)

	unit.Containers = oci.Tasks
	write()
	out, err = p.probe("--runtime "+wrapper(), "-e AMD_VISIBLE_DEVICES=1")
	require.Error(t, err)
	require.Contains(t, out, "cannot give the container a GPU: /etc/concourse-ci-machine/wrapper.json gives them to Concourse's tasks alone [container ")
}
