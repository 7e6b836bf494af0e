package engines

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const ofUnit = "/opt/concourse-ci-machine/engines/runc-amd-wrapper"

func apply(t *testing.T, h host.Host, u Unit) (p plan.Plan, notes []plan.Note) {
	t.Helper()
	p, err := u.Diff(context.Background(), h)
	require.NoError(t, err)
	notes, err = p.Apply(context.Background(), nil)
	require.NoError(t, err)
	return p, notes
}

func TestUnitConfiguresTheListedEngines(t *testing.T) {
	h := machine(t, "dockerd", docker20)
	h.Runner.(*hosttest.Runner).Answer("containerd --version", containerd21)
	hosttest.Put(t, h.Root, "/etc/docker/daemon.json", "{\"debug\": true}\n")
	hosttest.Put(t, h.Root, "/etc/containerd/config.toml", "version = 3\nimports = ['conf.d/*.toml']\n")
	before := files(t, h)
	every := Unit{Engines: Names(), Wrapper: ofUnit}
	p, _ := apply(t, h, every)
	require.Len(t, p, 5)
	require.Empty(t, first(apply(t, h, every)), "a second run plans nothing")
	apply(t, h, Unit{Engines: []string{"podman"}, Wrapper: ofUnit})
	require.True(t, h.Exists("/etc/containers/containers.conf.d/50-amd-gpu.conf"))
	require.False(t, h.Exists("/etc/crio/crio.conf.d/50-amd-gpu.conf"))
	apply(t, h, Unit{Wrapper: ofUnit})
	require.Equal(t, before, files(t, h), "byte for byte as before")
}

func first(p plan.Plan, _ []plan.Note) plan.Plan { return p }

// What a person provided with another wrapper is theirs.
func TestUnitWithoutTheOptionKeepsAManualRuntime(t *testing.T) {
	h := machine(t, "dockerd", docker20)
	for _, e := range []string{"docker", "podman"} {
		do(t, h, Request{Engine: e, Wrapper: wrapper})
	}
	before := files(t, h)
	require.Empty(t, first(apply(t, h, Unit{Wrapper: ofUnit})))
	require.Equal(t, before, files(t, h))
}

func TestBrokenFileOfAnEngineFailsNoHook(t *testing.T) {
	h := machine(t, "dockerd", docker20)
	hosttest.Put(t, h.Root, "/etc/docker/daemon.json", "{")
	p, notes := apply(t, h, Unit{Engines: []string{"docker", "podman"}, Wrapper: ofUnit})
	require.Len(t, p, 2)
	require.Len(t, notes, 1)
	require.ErrorContains(t, notes[0].Err, "cannot edit /etc/docker/daemon.json: it is not JSON")
	require.True(t, h.Exists("/etc/containers/containers.conf.d/50-amd-gpu.conf"))
}

// A user's wrapper in root's engine would run as root for whoever changes it.
func TestRootsEngineGetsNoFileOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root configures root's engines")
	}
	for _, e := range []struct{ engine, program, version string }{{"docker", "dockerd", docker28}, {"containerd", "containerd", containerd17}, {"podman", "podman", ""}, {"crio", "crio", ""}} {
		h := machine(t, e.program, e.version)
		const users = "/home/u/bin/runc-amd-wrapper"
		hosttest.Put(t, h.Root, users, "#!/bin/sh\n")
		require.NoError(t, os.Chmod(h.Path(users), 0o755))
		require.NoError(t, os.Lchown(h.Path("/home/u"), 4711, 4711))
		_, _, err := Want(t.Context(), h, Request{Engine: e.engine, Wrapper: users})
		require.EqualError(t, err, "cannot configure "+e.engine+": /home/u belongs to user 4711, who could put another program there; chown it to root; "+
			"or install the wrapper in a folder that only root can write: sudo install "+users+" /usr/local/bin/, then --wrapper=/usr/local/bin/runc-amd-wrapper")
	}
}
