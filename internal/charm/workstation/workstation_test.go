package workstation

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func apply(t *testing.T, h host.Host, want []plan.Resource) (ops []string) {
	t.Helper()
	p, err := plan.Diff(t.Context(), h, want...)
	require.NoError(t, err)
	for _, s := range p {
		ops = append(ops, s.Op)
	}
	_, err = p.Apply(context.Background(), nil)
	require.NoError(t, err)
	return ops
}

func refresh(t *testing.T, h host.Host, s Selection) []string {
	t.Helper()
	want, _, err := Refresh(h, "gpukit", s)
	require.NoError(t, err)
	return apply(t, h, want)
}

// machineOf returns a fixture host with runc.
func machineOf(t *testing.T, name string) host.Host {
	t.Helper()
	h := hosttest.Quiet(t, hosttest.Host(t, name))
	hosttest.Put(t, h.Root, "/usr/bin/runc", "")
	require.NoError(t, os.Chmod(h.Path("/usr/bin/runc"), 0o755))
	return h
}

func settings(t *testing.T, h host.Host) (c oci.Config) {
	t.Helper()
	data, err := h.ReadFile(oci.DefaultConfig)
	require.NoError(t, err)
	require.NoError(t, oci.CheckConfig(data))
	require.NoError(t, json.Unmarshal(data, &c))
	return c
}

func TestDescriptionFollowsTheGPUs(t *testing.T) {
	h := machineOf(t, "mi210x4")
	require.Equal(t, []string{"write " + cdi.Path}, refresh(t, h, Selection{}))
	require.Empty(t, refresh(t, h, Selection{}), "twice is once")
	require.Equal(t, []string{"write " + cdi.Path}, refresh(t, h, Selection{Devices: []string{"1"}, NoAll: true}))
	spec, err := cdi.ReadSpec(h.Root, cdi.Path)
	require.NoError(t, err)
	require.Len(t, cdi.List(spec), 1)
	require.Equal(t, "amd.com/gpu=1", cdi.List(spec)[0].Name, "a number stays with its GPU")

	require.NoError(t, os.RemoveAll(h.Path("/dev/dri")))
	want, notes, err := Refresh(h, "gpukit", Selection{})
	require.NoError(t, err)
	require.Equal(t, []string{"remove " + cdi.Path}, apply(t, h, want))
	require.Contains(t, notes[0], "no AMD GPU")
	_, _, err = Refresh(machineOf(t, "mi210x4"), "gpukit", Selection{Devices: []string{"7"}})
	require.EqualError(t, err, `cannot describe GPU "7": this machine has 0, 1, 2, 3`)
}

func TestAnotherToolsDescriptionStays(t *testing.T) {
	h := machineOf(t, "amd")
	const theirs = `{"cdiVersion": "0.6.0", "kind": "amd.com/gpu", "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/dri/renderD128"}]}}]}`
	hosttest.Put(t, h.Root, cdi.Path, theirs)
	want, notes, err := Refresh(h, "gpukit", Selection{})
	require.NoError(t, err)
	require.Empty(t, apply(t, h, want))
	require.Contains(t, notes[0], "is another tool's and stays")
	want, err = Remove(t.Context(), h, "/usr/bin/gpukit", "/usr/bin/runc-amd-wrapper")
	require.NoError(t, err)
	require.Empty(t, apply(t, h, want))
	data, err := h.ReadFile(cdi.Path)
	require.NoError(t, err)
	require.Equal(t, theirs, string(data))
}

func TestLeasesAreFromTheDescription(t *testing.T) {
	h := machineOf(t, "mi210x4")
	refresh(t, h, Selection{Devices: []string{"1", "2"}})
	want, err := Lease(h.Root)
	require.NoError(t, err)
	require.Equal(t, []string{"write " + oci.DefaultConfig}, apply(t, h, want))
	c := settings(t, h)
	require.Equal(t, "/usr/bin/runc", c.Runtime)
	require.Len(t, c.GPUs, 2)
	require.Equal(t, "0000:43:00.0", c.GPUs[0].Name)
	require.Equal(t, []string{"write " + cdi.Path, "write " + oci.DefaultConfig}, refresh(t, h, Selection{}))
	require.Len(t, settings(t, h).GPUs, 4, "the leases follow the description")

	want, err = Remove(t.Context(), h, "/usr/bin/gpukit", "/usr/bin/runc-amd-wrapper")
	require.NoError(t, err)
	require.Equal(t, []string{"remove " + oci.DefaultConfig, "remove " + cdi.Path}, apply(t, h, want))
}

// Programs on the machine itself lease GPUs too, also on one without a container engine.
func TestPoolNeedsNoEngine(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Host(t, "mi210x4"))
	pool, err := Pool(h.Root)
	require.NoError(t, err)
	require.Len(t, pool.GPUs, 4, "without a description, too")
	refresh(t, h, Selection{Devices: []string{"1", "2"}})
	pool, err = Pool(h.Root)
	require.NoError(t, err)
	require.Len(t, pool.GPUs, 2)
	require.Equal(t, []string{"/dev/dri/renderD129", "/dev/dri/card2"}, pool.GPUs[0].Nodes)
	require.Equal(t, "amd.com/gpu=GPU-2f90ab16c8e7431d", pool.GPUs[0].CDI)

	hosttest.Put(t, h.Root, "/usr/bin/runc", "")
	require.NoError(t, os.Chmod(h.Path("/usr/bin/runc"), 0o755))
	want, err := Lease(h.Root)
	require.NoError(t, err)
	apply(t, h, want)
	c := settings(t, h)
	require.Equal(t, "/var/lib/concourse-ci-machine/gpu-admission.json", c.Quarantine)
	c.Runtime, c.Missing = "", ""
	require.Equal(t, pool, c)
}

func TestLeasesAreRefused(t *testing.T) {
	h := machineOf(t, "amd")
	hosttest.Put(t, h.Root, oci.DefaultConfig, `{"runtime": "/usr/bin/runc"}`)
	_, err := Lease(h.Root)
	require.EqualError(t, err, "cannot lease GPUs to containers: another program wrote "+oci.DefaultConfig+"; move it away and repeat")
	want, err := Share(h.Root)
	require.NoError(t, err)
	require.Empty(t, want, "another program's file stays")

	h = hosttest.Quiet(t, hosttest.Host(t, "amd"))
	_, err = Lease(h.Root)
	require.ErrorContains(t, err, "neither runc nor crun is installed")
}

func TestUnitKeepsItsOwnDescription(t *testing.T) {
	h := machineOf(t, "amd")
	hosttest.Put(t, h.Root, model.FactsFile, `{"unit": "rocm-worker/0"}`)
	require.NoError(t, os.MkdirAll(h.Path("/etc/cdi"), 0o755))
	want, notes, err := Refresh(h, "gpukit", Selection{})
	require.NoError(t, err)
	require.Empty(t, want)
	require.Contains(t, notes[0], "rocm-worker/0")
	_, err = Lease(h.Root)
	require.ErrorContains(t, err, "gpu-sharing=exclusive")
	want, err = Remove(t.Context(), h, "/usr/bin/gpukit", "/usr/bin/runc-amd-wrapper")
	require.NoError(t, err)
	require.Empty(t, want)
}

func TestIntegratedGPUBesideACardIsLeasedOnlyByName(t *testing.T) {
	h := machineOf(t, "mi210x4")
	hosttest.AddIntegrated(t, h.Root)
	leased := func() (names []string) {
		for _, g := range settings(t, h).GPUs {
			names = append(names, g.Name)
		}
		return names
	}
	refresh(t, h, Selection{})
	want, err := Lease(h.Root)
	require.NoError(t, err)
	apply(t, h, want)
	require.Len(t, leased(), 4)
	require.NotContains(t, leased(), hosttest.IntegratedPCI)
	refresh(t, h, Selection{Devices: []string{"0000:23:00.0", hosttest.IntegratedPCI}})
	require.Equal(t, []string{hosttest.IntegratedPCI, "0000:23:00.0"}, leased())
}
