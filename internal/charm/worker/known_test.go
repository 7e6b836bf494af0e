package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/resourcetest"
)

func at(addresses ...string) (all []gpu.GPU) {
	for _, a := range addresses {
		all = append(all, gpu.GPU{Vendor: gpu.AMD, PCI: a})
	}
	return all
}

func TestGPUsThatAreGoneAreMissedUntilSomebodySaysOtherwise(t *testing.T) {
	had := KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b", "c"}}
	for name, c := range map[string]struct {
		was     KnownGPUs
		runtime string
		have    []gpu.GPU
		now     KnownGPUs
		gone    []string
	}{
		"first seen":           {KnownGPUs{}, "rocm", at("b", "a"), KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b"}}, nil},
		"none yet":             {KnownGPUs{}, "rocm", nil, KnownGPUs{}, nil},
		"as before":            {had, "rocm", at("a", "b", "c"), had, nil},
		"one gone":             {had, "rocm", at("a", "c"), had, []string{"b"}},
		"all gone":             {had, "rocm", nil, had, []string{"a", "b", "c"}},
		"one more":             {had, "rocm", at("a", "b", "c", "d"), KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b", "c", "d"}}, nil},
		"another in its place": {had, "rocm", at("a", "b", "d"), KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b", "d"}}, nil},
		"in partitions":        {had, "rocm", at("a", "a", "b", "c"), had, nil},
		"partitions no more":   {KnownGPUs{Runtime: "rocm", PCI: []string{"a"}}, "rocm", at("a"), KnownGPUs{Runtime: "rocm", PCI: []string{"a"}}, nil},
		"another runtime":      {had, "auto", at("a"), KnownGPUs{Runtime: "auto", PCI: []string{"a"}}, nil},
		"no GPUs wanted":       {had, "none", nil, KnownGPUs{}, nil},
	} {
		now, gone := c.was.with(c.runtime, c.have)
		now.Each = nil // see TestMissingPartitionsKeepTheirNumbers
		require.Equal(t, c.now, now, name)
		require.Equal(t, c.gone, gone, name)
	}
}

func TestAcceptedGPUsAreMissedNoMore(t *testing.T) {
	h := hosttest.Root(t)
	had := KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b"}}
	require.NoError(t, had.Write(h))
	got, err := ReadKnown(h)
	require.NoError(t, err)
	require.Equal(t, had, got)
	require.NoError(t, h.Remove(GPUsFile)) // the action
	got, err = ReadKnown(h)
	require.NoError(t, err)
	now, gone := got.with("rocm", at("a"))
	require.Empty(t, gone)
	require.NoError(t, now.Write(h))
	require.NoError(t, KnownGPUs{}.Write(h))
	require.False(t, h.Exists(GPUsFile))
	hosttest.Put(t, h, GPUsFile, "{")
	got, err = ReadKnown(h)
	require.NoError(t, err)
	require.Equal(t, KnownGPUs{}, got)
}

// A GPU that hangs is no GPU to pass through again, and is named with that.
func TestGPUThatHangsAndWasNotSeenBeforeIsNamed(t *testing.T) {
	hangs := gpu.Unusable{PCI: "0000:04:00.0", Vendor: gpu.AMD, Reason: gpu.Hangs, Detail: gpu.Hangs.Text()}
	for _, container := range []string{"", "lxc"} {
		o := running(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm"}))
		o.Machine.Container = container
		o.GPUs.Unusable = []gpu.Unusable{hangs}
		o.Known = KnownGPUs{Runtime: "rocm", PCI: []string{hangs.PCI, o.GPUs.GPUs[0].PCI}}
		d := Desire(o, nil)
		require.Contains(t, text(status.Of("Ready"+d.Suffix, d.Causes)), "active: Ready (GPU: 1x AMD); 1 GPU fewer than before, gone: 0000:04:00.0 (it hangs, see explain-error 2); ")
		o.GPUs.GPUs = nil
		d = Desire(o, nil)
		require.Contains(t, text(status.Of("Ready"+d.Suffix, d.Causes)), "blocked: AMD GPU 0000:04:00.0 does not count: it hangs: ", container)
	}
}

// A worker without tags takes the untagged steps of all teams. One that is to have
// GPUs is no such worker because it has none at the moment.
func TestWorkerThatLostItsGPUsTakesNoUntaggedSteps(t *testing.T) {
	const says = "steps without tags go to other workers meanwhile: this one keeps the tag gpu-count=0"
	for name, c := range map[string]struct {
		host    string
		runtime string
		known   []string
		tag     string
		status  string // part of it
	}{
		"asked for, no kfd":     {"amd-no-kfd", "rocm", nil, "gpu-count=0", "blocked: no /dev/kfd"},
		"auto, no kfd":          {"amd-no-kfd", "auto", nil, "gpu-count=0", "blocked: no /dev/kfd"},
		"asked for, no GPU":     {"no-gpu", "rocm", nil, "gpu-count=0", "blocked: no AMD GPU"},
		"auto, no GPU":          {"no-gpu", "auto", nil, "", "active: Ready; no GPU passed through"},
		"auto, had one":         {"no-gpu", "auto", []string{"0000:03:00.0"}, "gpu-count=0", "1 GPU fewer than before, gone: 0000:03:00.0; give them back, or go on without them: juju run concourse-ci-machine/0 accept-gpus"},
		"one of five":           {"mi210x4", "rocm", []string{"0000:03:00.0", "1", "2", "3", "4"}, "gpu-count=4", "1 GPU fewer than before, gone: "},
		"none wanted, had some": {"no-gpu", "none", []string{"0000:03:00.0"}, "", "active: Ready"},
		"as it should be":       {"amd", "rocm", nil, "gpu-count=1", "active: Ready (GPU: 1x AMD)"},
	} {
		o := running(observed(t, hosttest.Host(t, c.host), map[string]any{"compute-runtime": c.runtime}))
		o.Known = KnownGPUs{Runtime: c.runtime, PCI: c.known}
		d := Desire(o, nil)
		env, ok := resourcetest.File(d.Resources, concourse.EnvFile)
		require.True(t, ok)
		status := text(status.Of("Ready"+d.Suffix, d.Causes))
		require.Contains(t, status, c.status, name)
		if c.tag == "" {
			require.NotContains(t, env, "CONCOURSE_TAG=", name)
		} else {
			require.Contains(t, env, c.tag, name)
		}
		if c.tag == "gpu-count=0" {
			require.Contains(t, status, says, name)
		} else {
			require.NotContains(t, status, says, name)
		}
	}
}
