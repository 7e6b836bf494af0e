package oci

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func withEnv(t *testing.T) *testbed {
	t.Helper()
	b := newTestbed(t)
	b.configure(t, func(c *Config) {
		c.Env = map[string]string{"HSA_OVERRIDE_GFX_VERSION": "11.0.0", "HIP_ARCHES": "gfx1100"}
	})
	return b
}

// V12, C3: what the task or its image set stays.
func TestUnitsEnvironmentFillsInWhatTheTaskDidNotSet(t *testing.T) {
	b := withEnv(t)
	b.bundle(t, "task", env("A=b", "HIP_ARCHES=", "HSA=1"))
	require.NoError(t, b.create())
	require.Equal(t, []string{"A=b", "HIP_ARCHES=", "HSA=1", "HSA_OVERRIDE_GFX_VERSION=11.0.0"},
		b.result(t).Process.Env)
	once := b.text(t)
	require.NoError(t, b.create())
	require.True(t, compact(t, once) == compact(t, b.text(t)), "twice is once")
}

func TestContainersWithoutGPUKeepTheirEnvironment(t *testing.T) {
	for _, kind := range []string{"get", "check"} {
		b := withEnv(t)
		b.bundle(t, kind)
		before := b.text(t)
		require.NoError(t, b.create())
		require.True(t, before == b.text(t))
		require.NoDirExists(t, b.path("state"))
	}
}

// Concourse takes the environment of the user's command from its own records,
// so that what create wrote into config.json never reaches it.
func TestExecGetsTheEnvironmentToo(t *testing.T) {
	b := withEnv(t)
	b.bundle(t, "task")
	require.NoError(t, b.create())
	b.put(t, "process", `{"args":["true"],"env":["HIP_ARCHES=gfx90a","PATH=/bin"],"user":{"uid":0}}`)
	require.NoError(t, b.call("exec", "--process", b.path("process"), "c1"))
	require.True(t, strings.HasPrefix(b.argv[3], "/proc/self/fd/"), b.argv)
	data, err := os.ReadFile(b.argv[3])
	require.NoError(t, err)
	require.Equal(t, `{"args":["true"],"env":["HIP_ARCHES=gfx90a","PATH=/bin","HSA_OVERRIDE_GFX_VERSION=11.0.0"],"user":{"uid":0}}`, string(data))

	b.put(t, "process", `{"env":["HIP_ARCHES=x","HSA_OVERRIDE_GFX_VERSION="]}`)
	require.NoError(t, b.call("exec", "--process", b.path("process"), "c1"))
	require.Equal(t, b.path("process"), b.argv[3], "nothing to add")
}
