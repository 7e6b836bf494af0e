package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
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
func TestUnitsEnvironmentKeepsVariablesOfTheTask(t *testing.T) {
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

func TestEnvironmentDependsOnDirectoriesOfTheImage(t *testing.T) {
	outside := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "rocm"), 0o755))
	for name, c := range map[string]struct {
		make   func(t *testing.T, root string)
		config string
		want   []string
	}{
		"it is there": {func(t *testing.T, root string) { mkdir(t, root, "opt/rocm") }, `{"root":{"path":"rootfs"}}`, []string{"ROCM_PATH=/opt/rocm"}},
		"it is a link to a version, as ROCm's packages make it": {func(t *testing.T, root string) {
			mkdir(t, root, "opt/rocm-6.3.2")
			require.NoError(t, os.Symlink("/opt/rocm-6.3.2", filepath.Join(root, "opt/rocm")))
		}, `{"root":{"path":"rootfs"}}`, []string{"ROCM_PATH=/opt/rocm"}},
		"it is not there": {func(t *testing.T, root string) { mkdir(t, root, "opt") }, `{"root":{"path":"rootfs"}}`, nil},
		"it is a file": {func(t *testing.T, root string) {
			mkdir(t, root, "opt")
			require.NoError(t, os.WriteFile(filepath.Join(root, "opt/rocm"), nil, 0o644))
		}, `{"root":{"path":"rootfs"}}`, nil},
		"a link leads out of the image": {func(t *testing.T, root string) {
			mkdir(t, root, "opt")
			require.NoError(t, os.Symlink(filepath.Join(outside, "rocm"), filepath.Join(root, "opt/rocm")))
		}, `{"root":{"path":"rootfs"}}`, nil},
		"the image's /opt is a link upwards": {func(t *testing.T, root string) {
			require.NoError(t, os.Symlink("../../"+filepath.Base(outside), filepath.Join(root, "opt")))
		}, `{"root":{"path":"rootfs"}}`, nil},
		"a mount brings it":            {func(*testing.T, string) {}, `{"root":{"path":"rootfs"},"mounts":[{"destination":"/opt/rocm","source":"/x"}]}`, []string{"ROCM_PATH=/opt/rocm"}},
		"there is no root file system": {func(*testing.T, string) {}, `{"root":{"path":"elsewhere"}}`, nil},
		"a container without a path":   {func(*testing.T, string) {}, `{}`, nil},
		"the kernel's links are no way": {func(t *testing.T, root string) {
			require.NoError(t, os.Symlink("/proc/self/root/opt", filepath.Join(root, "opt")))
		}, `{"root":{"path":"rootfs"}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			root := mkdir(t, dir, "rootfs")
			c.make(t, root)
			doc, err := rawjson.Parse([]byte(c.config))
			require.NoError(t, err)
			f, err := readFacts(doc.Root())
			require.NoError(t, err)
			b, err := openBundle(dir, uint32(os.Geteuid()))
			require.NoError(t, err)
			defer b.close()
			got, err := b.rootfsDefaults([]rootfsEnv{{"/opt/rocm", []string{"ROCM_PATH=/opt/rocm"}}}, doc, f)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func mkdir(t *testing.T, in, dir string) string {
	t.Helper()
	path := filepath.Join(in, dir)
	require.NoError(t, os.MkdirAll(path, 0o755))
	return path
}

func TestRootfsEnvIsChecked(t *testing.T) {
	for config, want := range map[string]string{
		`{"rootfs_env":{"opt":{}}}`:               `"opt" is not the clean absolute path of a directory`,
		`{"rootfs_env":{"/":{}}}`:                 "is not the clean absolute path",
		`{"rootfs_env":{"/opt/../x":{}}}`:         "is not the clean absolute path",
		`{"rootfs_env":{"/opt/rocm":{"A=B":""}}}`: `"A=B" can't be set as an environment variable`,
		`{"rootfs_env":{"/opt/rocm":[]}}`:         "not an object",
		`{"rootfs_env":[]}`:                       "not an object",
		`{"rootfs_env":{"/a":{},"/a":{}}}`:        "/a",
	} {
		require.ErrorContains(t, CheckConfig([]byte(config)), want, config)
	}
	s, err := decodeConfig([]byte(`{"rootfs_env":{"/opt/rocm":{"ROCM_PATH":"/opt/rocm"}}}`))
	require.NoError(t, err)
	require.Equal(t, []rootfsEnv{{"/opt/rocm", []string{"ROCM_PATH=/opt/rocm"}}}, s.rootfsEnv)
}
