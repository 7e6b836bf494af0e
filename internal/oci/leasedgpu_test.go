package oci

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unnamed is a unit with two GPUs that have no unique id, and their leases.
func unnamed(t *testing.T) *testbed {
	return exclusive(t, func(c *Config) {
		c.Devices = []string{"amd.com/gpu=0", "amd.com/gpu=1"}
		c.Leases.GPUs = []LeasedGPU{{"0000:03:00.0", []string{"/dev/dri/renderD128"}},
			{"0000:c4:00.0", []string{"/dev/dri/renderD129"}}}
	})
}

// GPU 0 is gone, and the description made anew: GPU 1 is number 0 now.
func (b *testbed) firstGPUGoes(t *testing.T) {
	t.Helper()
	spec, err := os.ReadFile("testdata/amd.json")
	require.NoError(t, err)
	moved := strings.NewReplacer(`"name": "0"`, `"name": "7"`, `"name":"0"`, `"name":"7"`, `"name": "1"`, `"name": "0"`, `"name":"1"`, `"name":"0"`).Replace(string(spec))
	require.NotEqual(t, string(spec), moved)
	b.put(t, "amd.json", moved)
}

// A second task must not get the card that the first one computes on, neither
// once the wrapper's config follows nor before that.
func TestLeaseIsOfTheGPUAndNotOfItsIndex(t *testing.T) {
	for name, follow := range map[string]func(*Config){
		"the config is older than the description": func(c *Config) {
			c.Devices = []string{"amd.com/gpu=0"} // as if there had been one
			c.Leases.GPUs = []LeasedGPU{{"0000:03:00.0", []string{"/dev/dri/renderD128"}}}
		},
		"the config is as new": func(c *Config) {
			c.Devices = []string{"amd.com/gpu=0"}
			c.Leases.GPUs = []LeasedGPU{{"0000:c4:00.0", []string{"/dev/dri/renderD129"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := unnamed(t)
			require.NoError(t, b.task(t, "c1", "AMD_VISIBLE_DEVICES=1"))
			require.Equal(t, []string{"/dev/dri/renderD129"}, b.given(t))
			b.firstGPUGoes(t)
			b.configure(t, func(c *Config) {
				c.Leases = &Leases{Dir: b.path("leases")}
				follow(c)
			})
			err := b.task(t, "c2")
			require.Error(t, err)
			require.Regexp(t, `GPU 0: the wrapper's config has no name for its device nodes|0 \(GPU-3c4d, 0000:c4:00.0\) is held by the task of container c1`, err.Error())
		})
	}
}

func TestLeaseNamesHaveToBeOfOneGPUEach(t *testing.T) {
	for want, gpus := range map[string][]LeasedGPU{
		"there are 1 for 2 devices":            {{"a", []string{"/dev/a"}}},
		`"a" is no name with nodes, or there`:  {{"a", []string{"/dev/a"}}, {"a", []string{"/dev/b"}}},
		`"b" is no name with nodes`:            {{"a", []string{"/dev/a"}}, {"b", nil}},
		`"/dev/a" is no absolute path, or the`: {{"a", []string{"/dev/a"}}, {"b", []string{"/dev/a"}}},
		`"x" is no absolute path`:              {{"a", []string{"/dev/a"}}, {"b", []string{"x"}}},
	} {
		b := exclusive(t, func(c *Config) { c.Leases.GPUs = gpus })
		require.ErrorContains(t, b.task(t, "c1"), want)
	}
}
