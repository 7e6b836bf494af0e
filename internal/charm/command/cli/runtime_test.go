package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The output has the next steps for the user. A dry run changes nothing.
func TestRuntimeConfigurePrintsStepsAndAdvice(t *testing.T) {
	root := hosttest.Host(t, "amd")
	hosttest.Put(t, root, "/usr/local/bin/runc-amd-wrapper", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(root.Path("/usr/local/bin/runc-amd-wrapper"), 0o755))
	const file = "/etc/crio/crio.conf.d/50-amd-gpu.conf"
	const next = "crio reads it from: systemctl restart crio\nthen: a pod with the RuntimeClass of the handler amd, and AMD_VISIBLE_DEVICES=0\n"

	code, out, errs := at(root, "runtime", "configure", "crio", "--dry-run")
	require.Zero(t, code, errs)
	require.Equal(t, "1/1 write "+file+" (missing)\n/etc/cdi/amd.json is missing: run dispatch cdi generate\n"+next, out)
	require.False(t, root.Exists(file))

	code, _, errs = at(root, "cdi", "generate")
	require.Zero(t, code, errs)
	code, out, errs = at(root, "runtime", "configure", "--runtime=crio", "--wrapper", "/usr/local/bin/runc-amd-wrapper")
	require.Zero(t, code, errs)
	require.Equal(t, "1/1 write "+file+" (missing)\n"+next, out)
	text, err := root.ReadText(file)
	require.NoError(t, err)
	require.Contains(t, text, "runtime_path = \"/usr/local/bin/runc-amd-wrapper\"\n")

	code, out, errs = at(root, "runtime", "configure", "crio", "--remove")
	require.Zero(t, code, errs)
	require.Equal(t, "1/1 remove "+file+" (--remove)\ncrio reads it from: systemctl restart crio\n", out)
	require.False(t, root.Exists(file))
}

func TestRuntimeConfigureAcceptsAnotherFile(t *testing.T) {
	root := hosttest.Host(t, "amd")
	hosttest.Put(t, root, "/opt/x", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(root.Path("/opt/x"), 0o755))
	hosttest.Put(t, root, "/srv/docker.json", "{}\n")
	code, out, errs := at(root, "runtime", "configure", "docker", "--wrapper=/opt/x", "--config-path=/srv/docker.json")
	require.Zero(t, code, errs)
	require.Contains(t, out, "2/2 write /srv/docker.json (puts in runtimes.amd")
	code, _, errs = at(root, "runtime", "configure", "docker", "--wrapper=/opt/x")
	require.Equal(t, 1, code)
	require.Equal(t, "cannot edit /etc/docker/daemon.json: /srv/docker.json was edited before; take that back first, by --remove --config-path=/srv/docker.json\n", errs)
	code, _, errs = at(root, "runtime", "configure", "docker", "--remove", "--config-path=/srv/docker.json")
	require.Zero(t, code, errs)
	text, err := root.ReadFile("/srv/docker.json")
	require.NoError(t, err)
	require.Equal(t, "{}\n", string(text))
}

// A user's Podman leaves the leases of the machine as they are.
func TestUsersPodmanIsRemovedWithoutTheLeases(t *testing.T) {
	root := hosttest.Host(t, "amd")
	hosttest.Put(t, root, "/usr/local/bin/runc", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(root.Path("/usr/local/bin/runc"), 0o755))
	hosttest.Put(t, root, "/opt/x", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(root.Path("/opt/x"), 0o755))
	code, _, errs := at(root, "runtime", "configure", "crio", "--wrapper=/opt/x", "--exclusive")
	require.Zero(t, code, errs)
	p := &caller{charm: &actions.Actions{Charm: &charm.Charm{Host: host.Host{Root: root}}}}
	r := engines.Request{Engine: "crio", Wrapper: "/opt/x", Remove: true}
	want, err := p.machineResources(r, sharing{})
	require.NoError(t, err)
	require.Len(t, want, 1, "leases end with the last engine of the machine")
	r.Engine, r.UserConfig = "podman", "/home/me/.config"
	require.NoError(t, os.Remove(root.Path("/etc/crio/crio.conf.d/50-amd-gpu.conf"))) // as if the user could not see it
	want, err = p.machineResources(r, sharing{})
	require.NoError(t, err)
	require.Empty(t, want)
}

// ofAllUsers skips a test of Podman's settings for all users. Another user than root has own ones.
func ofAllUsers(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root configures Podman for all users")
	}
}

// The command names the wrapper that the next hook names.
func TestRuntimeConfigureNamesTheUnitsWrapper(t *testing.T) {
	ofAllUsers(t)
	root := hosttest.Host(t, "amd")
	wrapper := role.EnginesDir + "/runc-amd-wrapper"
	for _, path := range []string{wrapper, "/usr/bin/runc-amd-wrapper"} {
		hosttest.Put(t, root, path, "#!/bin/sh\n")
		require.NoError(t, os.Chmod(root.Path(path), 0o755))
	}
	code, _, errs := at(root, "runtime", "configure", "podman", "--set-as-default")
	require.Zero(t, code, errs)
	text, err := root.ReadText("/etc/containers/containers.conf.d/50-amd-gpu.conf")
	require.NoError(t, err)
	require.Contains(t, text, `["`+wrapper+`"]`)
}
