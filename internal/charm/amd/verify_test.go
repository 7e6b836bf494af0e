package amd

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// B12, B14: what was installed is looked at, and what is wrong has its way out.
func TestVerify(t *testing.T) {
	timeout := func(c host.Command) (string, error) {
		return "", &host.CommandError{Argv: c.Argv, Code: -1, Err: context.DeadlineExceeded, Timeout: c.Deadline}
	}
	answer := func(out string, err error) hosttest.Handler {
		return func(host.Command) (string, error) { return out, err }
	}
	refuse := &host.CommandError{Argv: []string{"rocm-smi"}, Code: 2, Stderr: "Traceback\nDriver not initialized", Err: errors.New("exit 2")}
	for name, c := range map[string]struct {
		lacks string
		smi   hosttest.Handler
		want  string
	}{
		"all is well":    {"", answer("GPU[0]", nil), ""},
		"no module":      {moduleDir, nil, "the kernel module amdgpu is not loaded; on the unit run: sudo modprobe amdgpu"},
		"no kfd":         {"/dev/kfd", nil, "/dev/kfd is missing; on the unit run: sudo dmesg"},
		"no node":        {"/dev/dri/renderD128", nil, "/dev/dri has no renderD*; "},
		"no tool":        {"/opt/rocm-6.3.2/bin/rocm-smi", nil, "the package rocm-smi-lib has no rocm-smi"},
		"the tool hangs": {"", timeout, "rocm-smi did not answer in 20s and was abandoned; the GPU or its driver hangs"},
		"it fails":       {"", answer("", refuse), "rocm-smi failed: Driver not initialized; on the unit run: rocm-smi"},
		"it sees none":   {"", answer("No AMD devices", nil), "rocm-smi shows no GPU"},
	} {
		g := newRig(t)
		files := map[string]string{moduleDir: "/version", "/dev/kfd": "", "/dev/dri/renderD128": "", "/opt/rocm-6.3.2/bin/rocm-smi": ""}
		for path, below := range files {
			if path == c.lacks {
				require.NoError(t, g.h.Remove(path))
				continue
			}
			hosttest.Put(t, g.h.Root, path+below, g.d.Release.DKMSVersion+"\n")
			if path == "/dev/kfd" {
				hosttest.Put(t, g.h.Root, path, "")
			}
		}
		if c.smi != nil {
			g.r.On("/opt/rocm-6.3.2/bin/rocm-smi", c.smi)
		}
		v := verify{Release: g.d.Release, Driver: true, Tools: true, Inputs: "x"}
		p := g.diff([]plan.Resource{v})
		require.Len(t, p, 1, name)
		err := p[0].Do(context.Background())
		if c.want == "" {
			require.NoError(t, err, name)
			require.Empty(t, g.diff([]plan.Resource{v}))
			v.Inputs = "y"
			require.Len(t, g.diff([]plan.Resource{v}), 1, "something else is installed")
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.False(t, g.h.Exists(verifiedStamp), name)
	}
}

// Before the reboot that a new driver needs, its tools are not asked.
func TestToolIsNotRunBeforeTheDriversReboot(t *testing.T) {
	g := newRig(t)
	hosttest.Put(t, g.h.Root, moduleDir+"/version", "6.8.5\n")
	hosttest.Put(t, g.h.Root, "/dev/kfd", "")
	hosttest.Put(t, g.h.Root, "/dev/dri/renderD128", "")
	g.r.Ran = nil
	g.apply(g.diff([]plan.Resource{verify{Release: g.d.Release, Driver: true, Tools: true}}))
	require.Empty(t, g.r.Ran)
}
