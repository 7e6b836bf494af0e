package charm

import (
	"bytes"
	"context"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// settled returns the root of a unit after its hooks, with Juju's data, the descriptions and
// the wrapper's settings.
func settled(t *testing.T, hostName string, set map[string]any) (*Charm, *hosttest.Runner) {
	t.Helper()
	r := hosttest.NewRunner(t)
	h := host.Host{Root: hosttest.Host(t, hostName), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}
	for _, dir := range []string{"/run", "/etc/concourse-ci-machine"} {
		require.NoError(t, h.MkdirAll(dir, 0o755))
	}
	require.NoError(t, h.WriteFile(oci.DefaultConfig, []byte("{}"), 0o600))
	raw := map[string]any{"mode": "worker"}
	maps.Copy(raw, set)
	require.NoError(t, model.Save(h.Root, model.Facts{}, model.Facts{Unit: "concourse-ci-machine/0", Role: model.WorkerRole, Config: raw}))
	c := &Charm{Host: h}
	refresh(t, c)
	return c, r
}

func refresh(t *testing.T, c *Charm) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, c.RefreshCDI(context.Background(), &b))
	return b.String()
}

func wrapperNow(t *testing.T, r host.Root) oci.Config {
	t.Helper()
	data, err := r.ReadFile(oci.DefaultConfig)
	require.NoError(t, err)
	c, err := roletest.DecodeWrapper(string(data))
	require.NoError(t, err)
	return c
}

func TestRefreshFollowsRemovedAndReturnedGPUs(t *testing.T) {
	c, r := settled(t, "mi210x4", map[string]any{"compute-runtime": "rocm"})
	require.Equal(t, "nothing to do\n", refresh(t, c), "a hook has just done it")
	before := wrapperNow(t, c.Host.Root)
	require.Len(t, before.GPUs, 4)

	inv, err := gpu.Discover(c.Host.Root)
	require.NoError(t, err)
	node := inv.GPUs[1].Render.Path
	data, err := c.Host.ReadFile(node)
	require.NoError(t, err)
	require.NoError(t, c.Host.Remove(node))
	require.Equal(t, "1/2 write /etc/cdi/amd.json (content differs)\n2/2 write /etc/concourse-ci-machine/wrapper.json (content differs)\n", refresh(t, c))
	require.Len(t, wrapperNow(t, c.Host.Root).GPUs, 3)
	spec, err := c.Host.ReadFile(cdi.Path)
	require.NoError(t, err)
	require.NotContains(t, string(spec), node)

	hosttest.Put(t, c.Host.Root, node, string(data))
	refresh(t, c)
	require.Equal(t, before, wrapperNow(t, c.Host.Root))
	require.Empty(t, r.Ran, "it restarts nothing")
	require.Empty(t, r.Asked)
}

// The last GPU: the wrapper stays in front of runc, and hands out nothing; a
// hook takes it away, with the restart that this takes.
func TestRefreshWithoutAnyGPULeavesTheWrapperInPlace(t *testing.T) {
	c, r := settled(t, "amd", map[string]any{"compute-runtime": "rocm", "srv-folders": "none"})
	inv, err := gpu.Discover(c.Host.Root)
	require.NoError(t, err)
	require.NoError(t, c.Host.Remove(inv.GPUs[0].Render.Path))
	text := refresh(t, c)
	require.Contains(t, text, "remove /etc/cdi/amd.json (tasks get no AMD GPU)")
	require.Empty(t, wrapperNow(t, c.Host.Root).GPUs)
	require.Empty(t, r.Ran)
	require.Equal(t, "nothing to do\n", refresh(t, c))
}

// Until the next hook takes the tags back, tasks that want a GPU still come here: they
// must not run without one. A worker that was never to have any goes on as it was.
func TestTasksWithGPUsAreRefusedAfterTheLastGPUIsRemoved(t *testing.T) {
	for name, set := range map[string]map[string]any{
		"by runtime": {"compute-runtime": "rocm"},
		"auto":       {"compute-runtime": "auto"},
	} {
		c, _ := settled(t, "amd", set)
		require.Empty(t, wrapperNow(t, c.Host.Root).Missing)
		inv, err := gpu.Discover(c.Host.Root)
		require.NoError(t, err)
		require.NoError(t, worker.KnownGPUs{Runtime: config.ComputeRuntime(set["compute-runtime"].(string)), PCI: []string{inv.GPUs[0].PCI}}.Write(c.Host.Root))
		require.NoError(t, c.Host.Remove(inv.GPUs[0].Render.Path))
		refresh(t, c)
		now := wrapperNow(t, c.Host.Root)
		require.Empty(t, now.GPUs, name)
		require.Contains(t, now.Missing, "this unit has none that tasks can use now; see why with: juju status", name)
		require.Equal(t, []string{"AMD_VISIBLE_DEVICES"}, now.Visible, name)
		require.Equal(t, "nothing to do\n", refresh(t, c), name)
	}
	c, _ := settled(t, "no-gpu", map[string]any{"compute-runtime": "auto"})
	require.Empty(t, wrapperNow(t, c.Host.Root).Missing)
}

func TestRefreshKeepsEverythingElse(t *testing.T) {
	c, _ := settled(t, "amd", map[string]any{"compute-runtime": "rocm", "task-env": "TOKEN=x", "srv-folders": "data"})
	hosttest.Put(t, c.Host.Root, "/etc/cdi/other.json", "{}")
	before := wrapperNow(t, c.Host.Root)
	require.NoError(t, c.Host.Remove(cdi.Path))
	refresh(t, c)
	require.True(t, c.Host.Exists(cdi.Path))
	require.Equal(t, before, wrapperNow(t, c.Host.Root))
	require.True(t, c.Host.Exists("/etc/cdi/other.json"))
	st, err := c.Host.Stat(oci.DefaultConfig)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm(), "task-env may hold a secret")
}

func TestRefreshDoesNothingIfTasksGetNoGPUs(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *Charm){
		"not set up": func(t *testing.T, c *Charm) { require.NoError(t, c.Host.Remove(oci.DefaultConfig)) },
		"a web": func(t *testing.T, c *Charm) {
			require.NoError(t, model.Save(c.Host.Root, model.Facts{}, model.Facts{Unit: "x/0", Role: model.WebRole, Config: map[string]any{"compute-runtime": "rocm"}}))
		},
		"turned off": func(t *testing.T, c *Charm) {
			require.NoError(t, model.Save(c.Host.Root, model.Facts{}, model.Facts{Unit: "x/0", Role: model.WorkerRole, Config: map[string]any{"mode": "worker"}}))
		},
	} {
		c, _ := settled(t, "amd", map[string]any{"compute-runtime": "rocm"})
		change(t, c)
		require.NoError(t, c.Host.Remove(cdi.Path))
		require.Equal(t, "nothing to do: tasks of this unit get no GPUs\n", refresh(t, c), name)
		require.False(t, c.Host.Exists(cdi.Path), name)
	}
	c, _ := settled(t, "amd", map[string]any{"compute-runtime": "rocm"})
	require.NoError(t, c.Host.Remove(model.FactsFile))
	require.ErrorContains(t, c.RefreshCDI(context.Background(), &bytes.Buffer{}), "no hook has run on this machine yet")
	require.NoError(t, model.Save(c.Host.Root, model.Facts{}, model.Facts{Unit: "x/0", Role: model.WorkerRole, Config: map[string]any{"compute-runtime": "rcom"}}))
	require.ErrorContains(t, c.RefreshCDI(context.Background(), &bytes.Buffer{}), "cannot describe the GPUs until this option is right: compute-runtime: ")
}

// It and a hook never write at the same time.
func TestRefreshNeedsAPreviousHook(t *testing.T) {
	c, _ := settled(t, "amd", map[string]any{"compute-runtime": "rocm"})
	require.NoError(t, c.Host.Remove(cdi.Path))
	unlock, err := c.Host.Lock(LockFile)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- c.RefreshCDI(context.Background(), &bytes.Buffer{}) }()
	select {
	case <-done:
		require.Fail(t, "it did not wait")
	default:
	}
	require.False(t, c.Host.Exists(cdi.Path))
	unlock()
	require.NoError(t, <-done)
	require.True(t, c.Host.Exists(cdi.Path))
}

// D52: NVIDIA's description is made again only if the charm made it before.
func TestD52RefreshDescribesNVIDIAGPUs(t *testing.T) {
	set := map[string]any{"compute-runtime": "cuda"}
	c, r := settled(t, "nvidia-only", set)
	theirs := `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0"}]}`
	hosttest.Put(t, c.Host.Root, nvidia.Path, theirs)
	refresh(t, c)
	data, err := c.Host.ReadText(nvidia.Path)
	require.NoError(t, err)
	require.Equal(t, theirs, data)
	require.Equal(t, []oci.GPU{{Name: "0000:0a:00.0", CDI: "nvidia.com/gpu=0"}}, wrapperNow(t, c.Host.Root).GPUs)

	hosttest.Put(t, c.Host.Root, nvidia.Path, `{"annotations":{"concourse-ci-machine/from":"old"},"kind":"nvidia.com/gpu","devices":[]}`)
	r.Answer("nvidia-ctk", theirs)
	require.Contains(t, refresh(t, c), "1/1 write /etc/cdi/nvidia.json (the driver or the GPUs are others than those it was made from)")
	require.Equal(t, []string{"nvidia-ctk cdi generate --format=json"}, r.Ran)
	require.Equal(t, []oci.GPU{{Name: "0000:0a:00.0", CDI: "nvidia.com/gpu=0"}}, wrapperNow(t, c.Host.Root).GPUs)
}
