package nodelabels_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func labels(t *testing.T, r host.Root) map[string]string {
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	return nodelabels.Labels(nodelabels.Read(r, inv.GPUsOf(gpu.AMD)))
}

func TestLabelsOfMachines(t *testing.T) {
	for _, name := range []string{"amd", "mi210x4", "mi300x-cpx", "apu-gfx1103", "no-gpu", "nvidia-only"} {
		t.Run(name, func(t *testing.T) {
			of := labels(t, hosttest.Host(t, name))
			fits(t, of)
			hosttest.Golden(t, "testdata/"+name+".golden", string(nodelabels.Lines(of)))
		})
	}
}

// fits holds labels to the rules of Kubernetes.
func fits(t *testing.T, labels map[string]string) {
	name := regexp.MustCompile(`^((beta\.)?amd\.com/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	value := regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	for k, v := range labels {
		require.Regexp(t, name, k)
		require.Regexp(t, value, v)
	}
}

// KFD reports a GPU's memory and, of AMD's packaged driver, sysfs the version.
func TestLabelsOfOptionalFiles(t *testing.T) {
	r := hosttest.Host(t, "amd")
	hosttest.Put(t, r, "/sys/module/amdgpu/version", "6.16.6\n")
	hosttest.Put(t, r, "/sys/module/amdgpu/srcversion", "0123456789ABCDEF01234567\n")
	hosttest.Put(t, r, "/sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 206141652992\n")
	of := labels(t, r)
	require.Equal(t, "6.16.6", of["amd.com/gpu.driver-version"])
	require.Equal(t, "0123456789ABCDEF01234567", of["amd.com/gpu.driver-src-version"])
	require.Equal(t, "192G", of["amd.com/gpu.vram"])
	require.Equal(t, "1", of["beta.amd.com/gpu.vram.192G"])
}

func TestDifferentGPUsAreCounted(t *testing.T) {
	of := nodelabels.Labels(nodelabels.Machine{GPUs: map[gpu.Slot]nodelabels.Values{
		{Index: 0}: {"device-id": "74a1", "style": "spx_nps1", "product-name": "Navi 31 [Radeon RX 7900 XT/7900 XTX]"},
		{Index: 1}: {"device-id": "74a1", "style": "cpx_nps1", "product-name": "Navi 31 [Radeon RX 7900 XT/7900 XTX]"},
		{Index: 2}: {"device-id": "744c", "product-name": "Navi 31 [Radeon RX 7900 XT/7900 XTX]"}}})
	require.Equal(t, map[string]string{"gpu": "true", "amd.com/gpu": "true",
		"amd.com/gpu.device-id.74a1": "2", "amd.com/gpu.device-id.744c": "1",
		"beta.amd.com/gpu.device-id.74a1": "2", "beta.amd.com/gpu.device-id.744c": "1",
		"amd.com/gpu.product-name":                                          "Navi_31__Radeon_RX_7900_XT_7900_XTX",
		"beta.amd.com/gpu.product-name":                                     "Navi_31__Radeon_RX_7900_XT_7900_XTX",
		"beta.amd.com/gpu.product-name.Navi_31__Radeon_RX_7900_XT_7900_XTX": "3",
		"amd.com/gpu.compute-partitioning-supported":                        "false",
		"amd.com/gpu.memory-partitioning-supported":                         "false"}, of)
	fits(t, of)
}

func TestAnyProductNameMakesLabels(t *testing.T) {
	for _, name := range []string{strings.Repeat("long (name) ", 20), "(", "Ünïcode™", "--", "a\nb=c"} {
		of := nodelabels.Labels(nodelabels.Machine{GPUs: map[gpu.Slot]nodelabels.Values{{}: {"product-name": name}}})
		fits(t, of)
		require.Equal(t, len(of), strings.Count(string(nodelabels.Lines(of)), "\n"))
	}
}

func TestManifestHasTheLabelsOnly(t *testing.T) {
	of := map[string]string{"gpu": "true", "amd.com/gpu.device-id": "7408"}
	data, err := nodelabels.Manifest("node-1.example.com", of)
	require.NoError(t, err)
	var node map[string]any
	require.NoError(t, yaml.Unmarshal(data, &node))
	require.Equal(t, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "node-1.example.com",
		"labels": map[string]any{"gpu": "true", "amd.com/gpu.device-id": "7408"}}}, node) // strings, as Kubernetes wants them
	for _, name := range []string{"", "Node", "a_b", "-a", "a\nb"} {
		_, err := nodelabels.Manifest(name, of)
		require.ErrorContains(t, err, "kubectl get nodes")
	}
}
