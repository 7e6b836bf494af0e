package worker

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

func TestKubeletIsOfferedTheUnitsAMDGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		host, runtime, option string
		kubelet               bool
		want                  string
	}{
		"AMD's GPUs and a kubelet": {"amd", "rocm", "auto", true, PluginUnit},
		"for claims":               {"amd", "rocm", "claims", true, DriverUnit},
		"no kubelet":               {"amd", "rocm", "auto", false, ""},
		"by option":                {"amd", "rocm", "off", true, ""},
		"GPUs that are to come":    {"no-gpu", "rocm", "auto", true, PluginUnit},
		"none asked for":           {"amd", "none", "claims", true, ""},
		"NVIDIA's":                 {"nvidia-only", "cuda", "auto", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Quiet(t, hosttest.Host(t, c.host))
			if c.kubelet {
				require.NoError(t, h.MkdirAll("/var/lib/kubelet/device-plugins", 0o750))
			}
			o := observed(t, h.Root, map[string]any{"compute-runtime": c.runtime, "kubernetes": c.option})
			if c.runtime == "none" {
				o.GPUs = gpu.Inventory{}
			}
			require.NoError(t, o.observeKubelet(h))
			require.Equal(t, c.kubelet, o.KubeletDigest != nil)
			d := Desire(o, nil)
			require.Equal(t, c.want, d.Kubernetes)
			for unit, program := range map[string]string{PluginUnit: "gpu-device-plugin", DriverUnit: "gpu-dra-driver"} {
				wanted := unit == c.want
				text, there := resourcetest.File(d.Resources, unitDir+unit)
				require.Equal(t, wanted, there, unit)
				require.Equal(t, !wanted, absent(d, unitDir+unit))
				require.Equal(t, !wanted, absent(d, "/opt/concourse-ci-machine/bin/"+program))
				if wanted {
					require.Contains(t, text, "\nExecStart=/opt/concourse-ci-machine/bin/"+program+"\n")
				}
				found := false
				for _, r := range d.Resources {
					if s, is := r.(resource.Service); is && s.Unit == unit {
						require.Equal(t, wanted, s.Up)
						found = true
					}
				}
				require.True(t, found, unit)
			}
		})
	}
}

func TestNodeLabelsDescribeTheGPUsOfTasks(t *testing.T) {
	for name, c := range map[string]struct {
		host, dir string
		set       map[string]any
		want      string // a line, "" for no file
	}{
		"beside a kubelet":                {"mi210x4", kubeletDir, nil, "beta.amd.com/gpu.device-id.740f=4\n"},
		"beside Node Feature Discovery":   {"mi210x4", nodelabels.Parent, nil, "amd.com/gpu=true\n"},
		"those that were chosen":          {"mi210x4", kubeletDir, map[string]any{"gpu-device-ids": "0,2"}, "beta.amd.com/gpu.device-id.740f=2\n"},
		"on a machine without Kubernetes": {"mi210x4", "/srv", nil, ""},
		"by option":                       {"mi210x4", kubeletDir, map[string]any{"kubernetes": "off"}, ""},
		"without GPUs":                    {"no-gpu", kubeletDir, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Quiet(t, hosttest.Host(t, c.host))
			require.NoError(t, h.MkdirAll(c.dir, 0o755))
			set := map[string]any{"compute-runtime": "rocm"}
			maps.Copy(set, c.set)
			o := observed(t, h.Root, set)
			o.ObserveLabels(h.Root)
			for _, d := range []Desired{Desire(o, nil), {}} {
				if d.Resources == nil {
					d.Resources = RefreshResources(o)
				}
				file, there := resourcetest.File(d.Resources, nodelabels.File)
				require.Equal(t, c.want != "", there)
				require.Contains(t, file, c.want)
				require.Equal(t, c.want == "", absent(d, nodelabels.File))
			}
		})
	}
}
