package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// D49: what the charm installed for another runtime is removed. Files of the operator stay,
// and so does the other vendor's software while the option requires it.
func TestD49OtherRuntimeRemovesOnlyWhatTheCharmInstalled(t *testing.T) {
	amd := append(amd.ToolkitFiles(), "package "+amd.ToolkitPackage)
	nv := append(nvidia.Files(), nvidia.Path, "package "+nvidia.Package)
	for runtime, want := range map[string]struct{ gone, stays []string }{
		"none": {append(append([]string{}, amd...), nv...), nil},
		"cuda": {amd, nv},
		"rocm": {nv, amd},
		"auto": {nil, append(append([]string{}, amd...), nv...)}, // both are there: it can't choose, and takes nothing away
	} {
		h, _ := roletest.FullUnit(t)
		o := observed(t, h.Root, map[string]any{"compute-runtime": runtime})
		o.NVIDIA = []string{"0"}
		p := roletest.Changes(t, h, removeOtherVendor(o, DecideGPUs(o)))
		text := roletest.Ops(p) + "\n"
		for _, path := range want.gone {
			require.Contains(t, text, "remove "+path+"\n", runtime)
		}
		for _, path := range want.stays {
			require.NotContains(t, text, path+"\n", runtime)
		}
		_, err := p.Apply(context.Background(), nil)
		require.NoError(t, err)
		for _, path := range roletest.Operators {
			data, err := h.ReadText(path)
			require.NoError(t, err, path)
			require.Equal(t, "mine", data, path)
		}
		if runtime == "none" {
			require.False(t, h.Exists(resource.OwnedFile))
		}
		require.Empty(t, roletest.Changes(t, h, removeOtherVendor(o, DecideGPUs(o))), "%s: a second run plans nothing", runtime)
	}
}

// D49: the worker's settings follow every change of the runtime.
func TestD49TagsAndWrapperFollowTheRuntime(t *testing.T) {
	r := hosttest.Host(t, "both-passed")
	for _, c := range []struct{ runtime, tags, device string }{
		{"rocm", "gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1100", "amd.com/gpu="},
		{"cuda", "gpu,compute-runtime=cuda,cuda,gpu-count=1", "nvidia.com/gpu=0"},
		{"none", "", ""},
	} {
		o := observed(t, r, map[string]any{"compute-runtime": c.runtime, "srv-folders": "none"})
		o.NVIDIA = []string{"0", "all"}
		d := Desire(o, nil)
		require.Equal(t, c.tags, env(t, d)["CONCOURSE_TAG"], c.runtime)
		if c.device == "" {
			for _, path := range []string{oci.DefaultConfig, concourse.Launcher, cdi.Path, "/etc/systemd/system/concourse-cdi-refresh.path"} {
				require.True(t, absent(d, path), path)
			}
			require.NotContains(t, env(t, d), "CONCOURSE_CONTAINERD_BIN")
			continue
		}
		require.Contains(t, wrapperOf(t, d).GPUs[0].CDI, c.device, c.runtime)
		require.Equal(t, c.runtime != "rocm", absent(d, cdi.Path), c.runtime)
		require.Contains(t, mustFile(t, d, "/etc/systemd/system/concourse-cdi-refresh.service"), "ExecStart=/opt/concourse-ci-machine/bin/dispatch cdi refresh\n")
	}
}

func mustFile(t *testing.T, d Desired, path string) string {
	t.Helper()
	data, ok := resourcetest.File(d.Resources, path)
	require.True(t, ok, path)
	return data
}
