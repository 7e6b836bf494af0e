package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/kube/nodelabels"
	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/resourcetest"
)

func TestNodeIsLabelledWithTheGPUsThatTasksGet(t *testing.T) {
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
			for k, v := range c.set {
				set[k] = v
			}
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
