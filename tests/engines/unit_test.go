//go:build e2e

package engines

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// On a unit the charm's file reports what there is to get, for Podman as for Concourse.
func TestContainersOnAUnitGetOfItsGPUsAlone(t *testing.T) {
	needPackage(t, "podman", "podman")
	describe(t)
	p := podman{root: filepath.Join(dir, "podman"), runRoot: "/run/podman-test"}
	p.load(t)
	runc, err := exec.LookPath("runc")
	require.NoError(t, err)
	srv := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(srv, "models_rw"), 0o777))
	unit := oci.Config{Runtime: runc, Containers: oci.Requested, Specs: []string{cdi.Path}, GPUs: []oci.GPU{{Name: "second", CDI: "amd.com/gpu=1"}}, Visible: []string{"AMD_VISIBLE_DEVICES"},
		Env: map[string]string{"TOKEN": "secret"}, Folders: &oci.Folders{Root: srv, Containers: oci.All}}
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
	// A volume at a task's place makes no task, and what tasks are given is theirs.
	given := func(words string) string {
		line := strings.Fields("--runtime " + wrapper() + " run --rm --network none " + words + " gpu-test /bin/sh -c")
		out, err := p.run(append(line, probe+`; echo "token $TOKEN"; [ ! -e `+srv+` ] || ls `+srv)...)
		require.NoError(t, err, out)
		return out
	}
	require.Equal(t, nothing+"token \n", given("-v /tmp/build/00000000"))
	require.Equal(t, second+"token \n", given("-v /tmp/build/00000000 -e AMD_VISIBLE_DEVICES=1"))
	out, err := p.probe("--runtime "+wrapper(), "-e AMD_VISIBLE_DEVICES=0")
	require.Error(t, err)
	require.Contains(t, out, `"0" is not a GPU that this machine gives; there are: 1 (0000:03:00.0-1) [container `)

	unit.Containers = oci.Tasks
	write()
	out, err = p.probe("--runtime "+wrapper(), "-e AMD_VISIBLE_DEVICES=1")
	require.Error(t, err)
	require.Contains(t, out, "cannot give the container a GPU: /etc/concourse-ci-machine/wrapper.json gives them only to Concourse's tasks [container ")
}
