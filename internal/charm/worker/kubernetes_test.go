package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/resourcetest"
)

func TestKubeletIsOfferedTheUnitsAMDGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		host, runtime, option string
		kubelet, want         bool
	}{
		"AMD's GPUs and a kubelet": {"amd", "rocm", "auto", true, true},
		"no kubelet":               {"amd", "rocm", "auto", false, false},
		"by option":                {"amd", "rocm", "off", true, false},
		"GPUs that are to come":    {"no-gpu", "rocm", "auto", true, true},
		"none asked for":           {"amd", "none", "auto", true, false},
		"NVIDIA's":                 {"nvidia-only", "cuda", "auto", true, false},
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
			require.Equal(t, c.kubelet, o.PluginDigest != nil)
			d := Desire(o, nil)
			require.Equal(t, c.want, d.Kubernetes)
			unit, there := resourcetest.File(d.Resources, pluginFile)
			require.Equal(t, c.want, there)
			require.Equal(t, !c.want, absent(d, pluginFile))
			require.Equal(t, !c.want, absent(d, pluginBin))
			if c.want {
				require.Contains(t, unit, "\nExecStart=/opt/concourse-ci-machine/bin/gpu-device-plugin\n")
			}
			for _, r := range d.Resources {
				if s, is := r.(resource.Service); is && s.Unit == PluginUnit {
					require.Equal(t, c.want, s.Up)
				}
			}
		})
	}
}
