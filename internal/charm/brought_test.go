package charm

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/cdi"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/nvidia"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/rocm"
)

// brought is a unit with all that the charm brings for both vendors, and what
// an operator has beside it.
func broughtUnit(t *testing.T) (host.Host, *hosttest.Runner) {
	r := hosttest.NewRunner(t)
	h := host.Host{Root: hosttest.Host(t, "both-passed"), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}
	for _, path := range append(rocm.ToolkitFiles(), nvidia.Files()...) {
		hosttest.Put(t, h.Root, path, "the charm's")
	}
	hosttest.Put(t, h.Root, cdi.Path, `{"devices":[{"name":"0","annotations":{"concourse-ci-machine/pci":"0000:03:00.0"}}]}`)
	hosttest.Put(t, h.Root, nvidia.Path, `{"annotations":{"concourse-ci-machine/from":"x"},"kind":"nvidia.com/gpu","devices":[{"name":"0"}]}`)
	hosttest.Put(t, h.Root, resource.BroughtFile, `{"packages":["`+rocm.ToolkitPackage+`","`+nvidia.Package+`"]}`)
	hosttest.Put(t, h.Root, "/var/lib/dpkg/status", "Package: "+rocm.ToolkitPackage+"\nStatus: install ok installed\nVersion: 1.2.0\n\nPackage: "+nvidia.Package+
		"\nStatus: install ok installed\nVersion: 1.17.8-1\n\nPackage: rocm-smi-lib\nStatus: install ok installed\nVersion: 7\n\n")
	r.On("apt-get remove", func(c host.Command) (string, error) {
		if c.ReadOnly {
			return "Remv " + c.Argv[len(c.Argv)-1] + " [1]\n", nil
		}
		return "", nil
	})
	for _, path := range operators {
		hosttest.Put(t, h.Root, path, "mine")
	}
	return h, r
}

var operators = []string{"/etc/cdi/other.json", "/etc/apt/sources.list.d/rocm.list", "/etc/apt/keyrings/rocm.gpg", "/etc/udev/rules.d/70-amdgpu.rules",
	"/etc/modprobe.d/amdgpu.conf", "/etc/apt/sources.list.d/nvidia-container-toolkit.list"}

// changes are the steps of resources that are about files and packages.
func changes(t *testing.T, h host.Host, rs []plan.Resource) plan.Plan {
	t.Helper()
	p, err := plan.Diff(context.Background(), h, rs...)
	require.NoError(t, err)
	return p
}

func ops(p plan.Plan) string {
	var all []string
	for _, s := range p {
		all = append(all, s.Op)
	}
	return strings.Join(all, "\n")
}

// D49: a runtime that is not wanted any more leaves nothing behind; what the
// operator has stays; the other vendor's stays as long as it is wanted.
func TestD49GoingBackTakesWhatTheCharmBroughtAndNothingElse(t *testing.T) {
	amd := append(rocm.ToolkitFiles(), "package "+rocm.ToolkitPackage)
	nv := append(nvidia.Files(), nvidia.Path, "package "+nvidia.Package)
	for runtime, want := range map[string]struct{ gone, stays []string }{
		"none": {append(append([]string{}, amd...), nv...), nil},
		"cuda": {amd, nv},
		"rocm": {nv, amd},
		"auto": {nil, append(append([]string{}, amd...), nv...)}, // both are there: it can't choose, and takes nothing away
	} {
		h, _ := broughtUnit(t)
		o := observed(t, h.Root, map[string]any{"compute-runtime": runtime})
		p := changes(t, h, goBack(o, DecideGPUs(o.Config, o.GPUs, o.Machine, []string{"0"})))
		text := ops(p) + "\n"
		for _, path := range want.gone {
			require.Contains(t, text, "remove "+path+"\n", runtime)
		}
		for _, path := range want.stays {
			require.NotContains(t, text, path+"\n", runtime)
		}
		_, err := p.Apply(context.Background(), nil)
		require.NoError(t, err)
		for _, path := range operators {
			data, err := h.ReadText(path)
			require.NoError(t, err, path)
			require.Equal(t, "mine", data, path)
		}
		if runtime == "none" {
			require.False(t, h.Exists(resource.BroughtFile))
		}
		require.Empty(t, changes(t, h, goBack(o, DecideGPUs(o.Config, o.GPUs, o.Machine, []string{"0"}))), "%s: a second run plans nothing", runtime)
	}
}

// D49: the worker's own settings follow, whichever way the runtime changes.
func TestD49TagsAndWrapperFollowTheRuntime(t *testing.T) {
	r := hosttest.Host(t, "both-passed")
	for _, c := range []struct{ runtime, tags, device string }{
		{"rocm", "gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1100", "amd.com/gpu="},
		{"cuda", "gpu,compute-runtime=cuda,cuda,gpu-count=1", "nvidia.com/gpu=0"},
		{"none", "", ""},
	} {
		o := observed(t, r, map[string]any{"compute-runtime": c.runtime, "srv-folders": "none"})
		o.NVIDIA = []string{"0", "all"}
		d := DesireWorker(o)
		require.Equal(t, c.tags, env(t, d)["CONCOURSE_TAG"], c.runtime)
		if c.device == "" {
			for _, path := range []string{oci.DefaultConfig, concourse.Launcher, cdi.Path, "/etc/systemd/system/concourse-cdi-refresh.path"} {
				require.True(t, absent(d, path), path)
			}
			require.NotContains(t, env(t, d), "CONCOURSE_CONTAINERD_BIN")
			continue
		}
		require.Contains(t, wrapperOf(t, d).Devices[0], c.device, c.runtime)
		require.Equal(t, c.runtime != "rocm", absent(d, cdi.Path), c.runtime)
		require.Contains(t, mustFile(t, d, "/etc/systemd/system/concourse-cdi-refresh.service"), "ExecStart=/opt/concourse-ci-machine/bin/dispatch cdi refresh\n")
	}
}

func mustFile(t *testing.T, d Desired, path string) string {
	t.Helper()
	data, ok := file(d, path)
	require.True(t, ok, path)
	return data
}

func TestRemovedUnitTakesItsBringingsAlong(t *testing.T) {
	h, r := broughtUnit(t)
	o := observed(t, h.Root, nil)
	o.Event = "remove"
	p := changes(t, h, desireNothing(o.UnitObserved).Resources)
	text := ops(p)
	last := strings.LastIndex(text, "remove package ")
	require.Less(t, last, strings.Index(text, "remove "+model.StateDir), "the note of packages goes after them")
	_, err := p.Apply(context.Background(), nil)
	require.NoError(t, err)
	require.Equal(t, 2, len(r.Ran), r.Ran)
	for _, path := range append(append(rocm.ToolkitFiles(), nvidia.Files()...), cdi.Path, nvidia.Path, model.StateDir) {
		require.False(t, h.Exists(path), path)
	}
	for _, path := range operators {
		require.True(t, h.Exists(path), path)
	}
}
