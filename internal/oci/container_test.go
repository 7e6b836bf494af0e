package oci

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaskIsRecognizedByItsWorkFolder(t *testing.T) {
	for destination, want := range map[string]bool{
		"/tmp/build/1c633350": true, "/tmp/build/1c633350/repo/out": true, "/tmp/build/00000000": true,
		"/tmp/build/get": false, "/tmp/build/put/x": false, "/tmp/build/run": false, "/tmp/build": false, "/tmp/build/": false,
		"/tmp/build/1C633350": false, "/tmp/build/1c63335": false, "/tmp/build/1c6333500": false, "/tmp/buildx/1c633350": false,
		"/x/tmp/build/1c633350": false, "/tmp/build/put/1c633350": false,
	} {
		require.Equal(t, want, isTask(destination), destination)
	}
}

// The predecessor edited with jq: its version 1.6 makes 2^64-1 a double, and
// then runc refuses to start.
func TestEditKeepsEverythingElse(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	before := b.text(t)
	require.NoError(t, b.create())
	after := b.text(t)
	for _, s := range []string{`18446744073709551615`, `9007199254740993`, `a field <of> a later spec & runtime`, `"eth9"`} {
		require.Contains(t, after, s)
	}
	// Taking our own additions out again gives what was there, in its order.
	require.JSONEq(t, before, without(t, after, 3, 3))
}

func without(t *testing.T, text string, mounts, rules int) string {
	t.Helper()
	var spec map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &spec))
	linux := spec["linux"].(map[string]any)
	delete(linux, "devices")
	m := spec["mounts"].([]any)
	spec["mounts"] = m[:len(m)-mounts]
	resources := linux["resources"].(map[string]any)
	r := resources["devices"].([]any)
	resources["devices"] = r[:len(r)-rules]
	out, err := json.Marshal(spec)
	require.NoError(t, err)
	return string(out)
}

func TestEditIsIdempotent(t *testing.T) {
	for _, mknod := range []bool{true, false} {
		for _, change := range []func(map[string]any){func(map[string]any) {}, privileged} {
			b := newTestbed(t)
			if !mknod {
				b.refuseMknod()
			}
			b.bundle(t, "task", change)
			require.NoError(t, b.create())
			once := b.text(t)
			require.NoError(t, b.create())
			require.Equal(t, once, b.text(t))
		}
	}
}

// A private bind and a linux.devices entry for one path: the device would win.
func TestOlderEntriesForThePathsAreDropped(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task", func(spec map[string]any) {
		spec["mounts"] = append(spec["mounts"].([]any),
			map[string]any{"destination": "/dev/dri/../kfd", "source": "/evil"})
		linux := spec["linux"].(map[string]any)
		linux["devices"] = []any{map[string]any{"path": "/dev/kfd", "type": "c", "major": 1, "minor": 3},
			map[string]any{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229}}
		resources := linux["resources"].(map[string]any)
		resources["devices"] = append(resources["devices"].([]any), map[string]any{"allow": false, "access": "rwm"})
	})
	require.NoError(t, b.create())
	r := b.result(t)
	require.NotContains(t, b.text(t), "/evil")
	require.Len(t, r.Linux.Devices, 1)
	require.Equal(t, "/dev/fuse", r.Linux.Devices[0].Path)
	require.Equal(t, gpu0[1:], r.Linux.Resources.Devices[2:], "after the deny-all")
}

// Real containers' files, if there are captures.
func TestRecordedContainersAreClassified(t *testing.T) {
	captures := os.Getenv("CAPTURES_DIR")
	if captures == "" {
		t.Skip("CAPTURES_DIR names no folder with captures of real machines")
	}
	for kind, task := range map[string]bool{"task": true, "get": false, "check": false} {
		data, err := os.ReadFile(filepath.Join(captures, "samples/config-"+kind+".json"))
		require.NoError(t, err)
		b := newTestbed(t)
		b.put(t, "bundle/config.json", string(data))
		require.NoError(t, b.create())
		if !task {
			require.Equal(t, string(data), b.text(t), kind)
			continue
		}
		require.JSONEq(t, string(data), without(t, b.text(t), 3, 3))
		require.Len(t, b.result(t).Linux.Resources.Devices, 4)
	}
}

func compact(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, []byte(text)))
	return b.String()
}

func TestTaskThatRequestsNoGPUIsTreatedAsOneWithout(t *testing.T) {
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
	require.EqualError(t, b.create(), `cannot give the task the GPUs of AMD_VISIBLE_DEVICES="1": "1" is not a GPU that this machine gives; `+
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
		c.GPUs, c.Visible = []GPU{gpuA, gpuB}, []string{"AMD_VISIBLE_DEVICES"}
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
	require.ErrorContains(t, b.create(), "this machine gives 2; request fewer with GPU_COUNT")
}
