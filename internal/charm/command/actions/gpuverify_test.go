package actions

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestDetectHasTheFixedWords(t *testing.T) {
	want := map[string]string{
		"no-gpu": "No GPU detected\n", "bmc-vfio": "No GPU detected\n", "amd-unreadable": "No GPU detected\n",
		"nvidia-only": "NVIDIA GPU detected\n", "both-passed": "AMD GPU detected\nNVIDIA GPU detected\n",
	}
	for _, name := range hosttest.HostNames() {
		words, ok := want[name]
		if !ok {
			words = "AMD GPU detected\n"
		}
		var b strings.Builder
		found, err := (&Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, name))}}).DetectGPUs(&b)
		require.NoError(t, err)
		require.Equal(t, words, b.String(), name)
		require.Equal(t, words != "No GPU detected\n", found, name)
	}
}

// verified runs VerifyGPUs on a fixture host with these answers of nodes. Other nodes must
// not be opened.
func verified(t *testing.T, host string, answers map[string]any) (string, error) {
	t.Helper()
	var mu sync.Mutex
	tried := map[string]bool{}
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, host))}, Probe: func(_ context.Context, node string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		tried[node] = true
		switch a := answers[node].(type) {
		case string:
			return a, nil
		case error:
			return "", a
		}
		t.Errorf("%s was opened", node)
		return "", nil
	}}
	var b strings.Builder
	err := c.VerifyGPUs(t.Context(), &b, term.Format{})
	require.Len(t, tried, len(answers), "each node is opened, once")
	return b.String(), err
}

func TestVerify(t *testing.T) {
	const kfd, r128, r129 = "/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"
	amd, nv := "amdgpu 3.57.0", "nvidia-drm 0.0.0"
	for name, c := range map[string]struct {
		host    string
		answers map[string]any
		text    string
		err     string
	}{
		"all works": {"both-passed", map[string]any{kfd: "", r128: amd, r129: nv},
			"ok      /dev/kfd\n        opens for reading and writing\n" +
				"ok      /dev/dri/renderD128   AMD Radeon RX 7900 XT  0000:03:00.0\n        answers: DRM driver amdgpu 3.57.0\n" +
				"ok      /dev/dri/renderD129   NVIDIA GeForce RTX 4090  0000:0a:00.0\n        answers: DRM driver nvidia-drm 0.0.0\n", ""},
		"NVIDIA needs no kfd": {"nvidia-only", map[string]any{r129: nv}, "renderD129", ""},
		"a node is closed": {"amd", map[string]any{kfd: "", r128: errors.New("cannot open it for reading and writing: permission denied")},
			"FAILED  /dev/dri/renderD128   AMD Radeon RX 7900 XT  0000:03:00.0\n        cannot open it for reading and writing: permission denied\n",
			"cannot use every GPU node: 1 of 2 failed: /dev/dri/renderD128: cannot open it for reading and writing: permission denied"},
		"another driver answers": {"amd", map[string]any{kfd: "", r128: "vgem 1.0.0"}, "FAILED",
			"cannot use every GPU node: 1 of 2 failed: /dev/dri/renderD128: it is a node of driver vgem 1.0.0, but sysfs shows amdgpu"},
		"a name that only begins so": {"amd", map[string]any{kfd: "", r128: "amdgpu2 3.57.0"}, "FAILED",
			"cannot use every GPU node: 1 of 2 failed: /dev/dri/renderD128: it is a node of driver amdgpu2 3.57.0, but sysfs shows amdgpu"},
		"an empty answer": {"amd", map[string]any{kfd: "", r128: ""}, "FAILED",
			"cannot use every GPU node: 1 of 2 failed: /dev/dri/renderD128: it is a node of driver , but sysfs shows amdgpu"},
		"each reason is told": {"amd", map[string]any{kfd: errors.New("broken"), r128: errors.New("worn out")}, "FAILED",
			"cannot use every GPU node: 2 of 2 failed: /dev/kfd: broken; /dev/dri/renderD128: worn out"},
		"the kernel keeps the call": {"amd", map[string]any{kfd: "", r128: &host.CommandError{Argv: []string{"dispatch"}, Code: -1, Timeout: probeTimeout}}, "FAILED",
			"cannot use every GPU node: 1 of 2 failed: /dev/dri/renderD128: the kernel does not answer within 10s: the GPU may hang; see dispatch explain 2"},
		"the process says why": {"amd", map[string]any{kfd: "", r128: &host.CommandError{Code: 1, Stderr: "noise\nit is not a DRM device"}}, "FAILED",
			"cannot use every GPU node: 1 of 2 failed: /dev/dri/renderD128: it is not a DRM device"},
		"no kfd": {"amd-no-kfd", map[string]any{r128: amd}, "FAILED  /dev/kfd\n        no /dev/kfd\nok ",
			"cannot use every GPU node: 1 of 2 failed: /dev/kfd: no /dev/kfd"},
		"kfd of another driver": {"amd-kfd-mismatch", map[string]any{r128: amd}, "FAILED",
			"cannot use every GPU node: 1 of 2 failed: /dev/kfd: /dev/kfd is 238:0, but the kernel's kfd driver has major 235"},
		"a GPU that was given and can't be used": {"amd-unreadable", nil, "FAILED  GPU 0000:03:00.0      AMD Radeon RX 7900 XT\n",
			"cannot use every GPU node: 2 of 2 failed: /dev/kfd: /dev/kfd has mode 0660 and belongs to an owner outside this container (65534:65534); " +
				"GPU 0000:03:00.0: /dev/dri/renderD128 has mode 0660 and belongs to an owner outside this container (65534:65534)"},
		"nothing to try": {"no-gpu", nil, "", "cannot verify: No GPU detected; dispatch gpu list shows why"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := verified(t, c.host, c.answers)
			require.Contains(t, text, c.text)
			if c.err == "" {
				require.NoError(t, err)
				require.NotContains(t, text, "FAILED")
				return
			}
			require.EqualError(t, err, c.err)
		})
	}
}

func TestVerifyOpensEveryPartition(t *testing.T) {
	answers := map[string]any{"/dev/kfd": ""}
	for i := range 9 {
		answers["/dev/dri/renderD"+string([]rune{'1', rune('2' + (8+i)/10), rune('0' + (8+i)%10)})] = "amdgpu 3.64.0"
	}
	text, err := verified(t, "mi300x-cpx", answers)
	require.NoError(t, err)
	require.Equal(t, 10, strings.Count(text, "ok  "))
}

func TestVerifyAsJSON(t *testing.T) {
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, "amd"))}, Probe: func(_ context.Context, node string) (string, error) {
		if node == "/dev/kfd" {
			return "", nil
		}
		return "", errors.New("gone")
	}}
	var b strings.Builder
	require.Error(t, c.VerifyGPUs(t.Context(), &b, term.Format{JSON: true, Colour: true}))
	var got struct {
		OK     bool
		Checks []NodeCheck
	}
	require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
	require.False(t, got.OK)
	require.Equal(t, []NodeCheck{{"/dev/kfd", "", true, "opens for reading and writing"},
		{"/dev/dri/renderD128", "AMD Radeon RX 7900 XT  0000:03:00.0", false, "gone"}}, got.Checks)

	b.Reset()
	require.Error(t, (&Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, "no-gpu"))}}).VerifyGPUs(t.Context(), &b, term.Format{JSON: true}))
	require.JSONEq(t, `{"ok": false, "checks": []}`, b.String())
}

// The nodes of a fixture are plain files, and not devices.
func TestPlainFilesFailVerification(t *testing.T) {
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, "amd"))}}
	err := c.VerifyGPUs(t.Context(), &strings.Builder{}, term.Format{})
	require.EqualError(t, err, "cannot use every GPU node: 2 of 2 failed: /dev/kfd: not a character device; /dev/dri/renderD128: not a character device")
}

// Device nodes with the right numbers and without a GPU.
func TestNodesWithoutAGPUFail(t *testing.T) {
	if found, _ := filepath.Glob("/dev/dri/*"); len(found) > 0 {
		t.Skip("this machine has a GPU behind those numbers")
	}
	r := hosttest.Host(t, "amd")
	for path, number := range map[string]uint64{"/dev/dri/renderD128": unix.Mkdev(226, 128), "/dev/kfd": unix.Mkdev(235, 0)} {
		require.NoError(t, os.Remove(r.Path(path)))
		if err := unix.Mknod(r.Path(path), unix.S_IFCHR|0o600, int(number)); err != nil {
			t.Skipf("making device nodes takes root outside a container: %v", err)
		}
	}
	_, err := ProbeNode(r, "/dev/dri/renderD128")
	if errors.Is(err, unix.EPERM) {
		require.ErrorContains(t, err, "this container may not use the device")
		t.Skip("this container may not open the device")
	}
	err = (&Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, r)}}).VerifyGPUs(t.Context(), &strings.Builder{}, term.Format{})
	require.ErrorContains(t, err, "/dev/dri/renderD128: cannot open it for reading and writing: no such device")
}

func TestProbeRunsInASeparateProcess(t *testing.T) {
	runner := hosttest.NewRunner(t).Answer("dispatch gpu probe /dev/dri/renderD128", "amdgpu 3.57.0\n")
	got, err := NewProbe(runner, "dispatch", "gpu", "probe")(t.Context(), "/dev/dri/renderD128")
	require.NoError(t, err)
	require.Equal(t, "amdgpu 3.57.0", got)
	require.Less(t, probeTimeout, time.Minute)
}

func TestDeniedAccessHasARemedy(t *testing.T) {
	require.NoError(t, addHint(nil))
	require.Equal(t, unix.ENODEV, addHint(unix.ENODEV))
	if os.Geteuid() != 0 {
		require.EqualError(t, addHint(unix.EACCES), "permission denied; run it with sudo")
		return
	}
	require.Equal(t, unix.EACCES, addHint(unix.EACCES))
	require.EqualError(t, addHint(unix.EPERM), "operation not permitted; this container may not use the device: pass it through again, or restart the container")
}
