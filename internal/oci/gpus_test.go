package oci

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaskThatAsksForNoGPUIsOneWithoutInEveryRespect(t *testing.T) {
	b := newTestbed(t)
	b.configure(t, func(c *Config) { c.Visible, c.Env = []string{"AMD_VISIBLE_DEVICES"}, map[string]string{"A": "b"} })
	b.bundle(t, "task", env("AMD_VISIBLE_DEVICES=none"))
	before := b.text(t)
	require.NoError(t, b.create())
	require.Equal(t, before, b.text(t))
	require.NoDirExists(t, b.path("state"))
}

func TestRefusedValueStopsTheContainer(t *testing.T) {
	b := newTestbed(t)
	b.configure(t, func(c *Config) { c.Visible = []string{"AMD_VISIBLE_DEVICES"} })
	b.bundle(t, "task", env("AMD_VISIBLE_DEVICES=1"))
	require.EqualError(t, b.create(), `cannot give the task the GPUs of AMD_VISIBLE_DEVICES="1": "1" is no GPU that this unit gives; `+
		`there are: 0 (GPU-1a2b, 0000:03:00.0) [container c1]`)
	require.Nil(t, b.argv)
	b.configure(t, func(c *Config) { c.Visible = nil })
	require.NoError(t, b.create(), "without visible nothing that a task sets has an effect")
}

// env sets the environment of a container's first process.
func env(list ...any) func(map[string]any) {
	return func(spec map[string]any) { spec["process"].(map[string]any)["env"] = list }
}

func TestCountOfSharedGPUsReachesTheContainer(t *testing.T) {
	b := newTestbed(t)
	b.configure(t, func(c *Config) {
		c.Devices, c.Visible = []string{"amd.com/gpu=all"},
			[]string{"AMD_VISIBLE_DEVICES"}
	})
	b.bundle(t, "task", env("GPU_COUNT=0"))
	before := b.text(t)
	require.NoError(t, b.create())
	require.Equal(t, before, b.text(t))
	b.bundle(t, "task", env("GPU_COUNT=1"))
	require.NoError(t, b.create())
	require.Contains(t, b.text(t), "renderD128")
	require.NotContains(t, b.text(t), "renderD129")
	b.bundle(t, "task", env("GPU_COUNT=9"))
	require.ErrorContains(t, b.create(), "this unit gives 2; ask for fewer by GPU_COUNT")
}
