//go:build e2e

package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nerdctl takes the wrapper's path as a runtime, and CDI names itself.
func TestNerdctlHasBothWays(t *testing.T) {
	needPackage(t, "containerd", "containerd", "ctr")
	program := needBuilt(t, "nerdctl")
	describe(t)
	const file = "/etc/containerd/config.toml"
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(containerdFile()), 0o644))
	containerd(t)
	// What a container reports is apart from nerdctl's own words, which at times has some
	// of a signal that came too late.
	nerdctl := func(words ...string) (string, error) {
		c := exec.Command(program, append([]string{"--address", containerdSocket, "--data-root", filepath.Join(dir, "nerdctl-data"), "--snapshotter", "native"}, words...)...)
		var own strings.Builder
		c.Stderr = &own
		out, err := c.Output()
		if err != nil {
			return string(out) + own.String(), err
		}
		return string(out), nil
	}
	out, err := nerdctl("import", tarball(), "gpu-test")
	require.NoError(t, err, out)
	in := func(words string) (string, error) {
		return nerdctl(append(strings.Fields("run --rm --network none "+words+" gpu-test /bin/sh -c"), probe)...)
	}
	for words, want := range map[string]string{
		"--runtime " + wrapper() + " -e AMD_VISIBLE_DEVICES=0":               first,
		"--runtime " + wrapper() + " -e AMD_VISIBLE_DEVICES=all --user 1234": both,
		"--runtime " + wrapper() + " -e GPU_COUNT=1":                         first,
		"--runtime " + wrapper():                                             nothing,
		"-e AMD_VISIBLE_DEVICES=0":                                           nothing,
		"--device amd.com/gpu=1":                                             second,
		"--device amd.com/gpu=all":                                           both,
		"--device amd.com/gpu=1 --user 1000:1000":                            second,
	} {
		out, err := in(words)
		require.NoError(t, err, "%s: %s", words, out)
		require.Equal(t, want, out, words)
	}
	out, err = in("--runtime " + wrapper() + " -e AMD_VISIBLE_DEVICES=7")
	require.Error(t, err)
	require.Contains(t, out, "is not a GPU that this machine gives; there are: 0 (GPU-a1b2c3d4e5f60000, 0000:03:00.0), 1 (0000:03:00.0-1) [container ")
}
