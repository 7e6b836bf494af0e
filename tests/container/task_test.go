//go:build e2e

package container

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// A privileged task can make a node of the other GPU; the cgroup keeps it shut.
func TestUnselectedGPUStaysShutForAPrivilegedTask(t *testing.T) {
	b := newBed(t, 0o666)
	b.start()
	script := ""
	numbers, err := suite.Minors()
	require.NoError(t, err)
	for i, path := range suite.StandIns {
		minor := numbers[path]
		script += fmt.Sprintf("busybox mknod /tmp/n%d c 10 %d; if e=$( { exec 3<>/tmp/n%d; } 2>&1); then echo n%d: opens; else echo \"n%d: ${e##*: }\"; fi\n", i, minor, i, i, i)
	}
	b.write("process", process(0, script))
	out := found(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id))
	// Making nodes needs a rule with m, which only runc's defaults have.
	require.Equal(t, map[string]string{"n0": "opens", "n1": "opens", "n2": "Operation not permitted"}, out)
}

// ROCm of the image is found by what comes by exec, as tasks do. An image without it, or
// one with a broken link, gets nothing.
func TestTaskFindsTheROCmOfItsImage(t *testing.T) {
	for name, c := range map[string]struct {
		link string // of /opt/rocm in the image
		want string
	}{
		"ROCm is there":             {"/opt/rocm-6.3.2", "path=/opt/rocm"},
		"no ROCm":                   {"", "path="},
		"the link leads to nothing": {"../../../../../../../../../opt/rocm-of-the-host", "path="},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 0o660)
			b.maps = concourse
			b.configure(oci.Config{GPUs: oneGPU, RootfsEnv: map[string]map[string]string{"/opt/rocm": {"ROCM_PATH": "/opt/rocm"}}})
			b.bundle()
			require.NoError(t, os.MkdirAll(b.path("bundle/rootfs/opt/rocm-6.3.2"), 0o755))
			if c.link != "" {
				require.NoError(t, os.Symlink(c.link, b.path("bundle/rootfs/opt/rocm")))
			}
			b.output(func() error { return b.runc(io.Discard, "start", b.id) }, "create", "--bundle", b.path("bundle"), b.id)
			b.write("process", process(0, "echo path=$ROCM_PATH\n"))
			out := b.output(nil, "exec", "--process", b.path("process"), b.id)
			require.Contains(t, strings.Fields(out), c.want)
		})
	}
}

func TestRefusedCreateIsInTheLogAndCanBeDeleted(t *testing.T) {
	b := newBed(t, 0o660)
	b.maps = concourse
	b.bundle()
	s := spec(t)
	s["devices"].([]any)[0].(map[string]any)["containerEdits"].(map[string]any)["deviceNodes"].([]any)[0].(map[string]any)["minor"] = 1
	b.write("amd.json", s)
	var out bytes.Buffer
	require.Error(t, b.runc(&out, "create", "--bundle", b.path("bundle"), b.id))
	require.Contains(t, out.String(), "is stale: it has 10:1 for /dev/dri/renderD128")
	log, err := os.ReadFile(b.path("bundle/log.json"))
	require.NoError(t, err)
	require.Regexp(t, `^\{"level":"error","msg":"runc-amd-wrapper: cannot give the task /dev/dri/renderD128: CDI spec .* is stale: .*","time":".*"\}\n$`, string(log))
	require.NoError(t, b.runc(&out, "delete", "--force", b.id))
}
