package hooks

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// oldUnit is a unit of the Python charm, with a service that runs.
func oldUnit(t *testing.T, name, service string, set options) *unit {
	t.Helper()
	w, err := sandbox.New(sandbox.Options{Host: string(hosttest.Predecessor(t, name)), Charm: charmDir(), Main: runDispatch, Exe: tools(), Unit: unitName})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.Model.Resources = map[string]string{"concourse-release": releaseTarball("8.2.5")}
	u := &unit{World: w, t: t}
	u.set(set)
	u.start(service)
	return u
}

// oldKey is a private key of the unit, as Concourse wrote it for the Python charm.
func oldKey(path string) string {
	private, _ := hosttest.Key(path)
	return private
}

// The hook that Juju runs after a refresh makes a worker of the Python charm
// this one's; the next one has nothing to do.
func TestWorkerOfThePythonCharmIsTakenOver(t *testing.T) {
	for name, runtime := range map[string]string{"worker": "none", "rocm": "rocm", "cuda": "cuda"} {
		t.Run(name, func(t *testing.T) {
			set := options{"mode": "worker", "amd-container-toolkit": "skip", "compute-runtime": runtime}
			if name == "cuda" {
				set["https-proxy"] = nobodyListens // NVIDIA's repository is never asked
			}
			u := oldUnit(t, name, workerUnit, set)
			u.web()
			volume := u.read("/var/lib/concourse/worker/volumes/live/9f3c/volume/file")
			hostname := strings.TrimSpace(u.read("/etc/hostname"))
			u.hook("upgrade-charm")
			if name == "cuda" { // the worker works; its GPUs wait for NVIDIA's repository
				require.Contains(t, u.refused("check-status", nil), "no /etc/cdi/nvidia.json")
				require.True(t, u.Machine.Up("concourse-worker.service"))
			} else {
				require.Contains(t, u.Model.Status().Message, "Worker ready (v8.2.5)")
			}
			env := u.read("/var/lib/concourse-worker/worker-config.env")
			require.Contains(t, env, "CONCOURSE_NAME="+hostname+"\n")
			require.Contains(t, env, "CONCOURSE_CONTAINERD_MAX_CONTAINERS=400\n")
			require.Contains(t, env, "CONCOURSE_WORK_DIR=/var/lib/concourse/worker\n")
			require.NotContains(t, env, "old-tag")
			require.Equal(t, hostname, u.Model.Relations[0].Local["worker-name"])
			require.Equal(t, oldKey("/var/lib/concourse-worker/keys/worker_key"), u.read("/var/lib/concourse-worker/keys/worker_key"))
			require.Equal(t, volume, u.read("/var/lib/concourse/worker/volumes/live/9f3c/volume/file"))
			require.Equal(t, "runc of 7.14.3, stand-in\n", u.read("/var/lib/concourse/bin/runc"), "its release stays, for going back")
			for _, gone := range []string{"/opt/bin", "/usr/local/bin/runc-wrapper", "/usr/bin/runc.real", "/var/lib/concourse/containerd-gpu.toml",
				"/var/lib/concourse-worker/keys/session_signing_key"} {
				require.False(t, u.Root.Exists(gone), gone)
			}
			if name == "cuda" {
				require.False(t, u.Root.Exists("/usr/bin/nvidia-container-runtime.real"), "NVIDIA's own runtime is back in its place")
				require.NotContains(t, u.read("/etc/nvidia-container-runtime/config.toml"), "/opt/bin")
			}
			require.Empty(t, u.hook("update-status").Commands)
		})
	}
}

// On shared storage other units of the Python charm may go on: what is in the
// shared folder stays, this unit's own is taken over.
func TestWorkerOnSharedStorageOfThePythonCharmIsTakenOver(t *testing.T) {
	u := oldUnit(t, "lxc", workerUnit, options{"mode": "worker", "shared-storage": "lxc"})
	u.web()
	// As it is: tree leaves out what this unit's own key is.
	contents := func() map[string]string {
		found := map[string]string{}
		for path := range tree(u, "/var/lib/concourse") {
			if data, err := u.Root.ReadFile(path); err == nil {
				found[path] = string(data)
			}
		}
		return found
	}
	before := contents()
	require.Greater(t, len(before), 8)
	u.hook("upgrade-charm")
	require.Equal(t, "active: Worker ready (v8.2.5)", u.Model.Status().Status+": "+u.Model.Status().Message)
	env := u.read("/var/lib/concourse-worker/worker-config.env")
	require.Contains(t, env, "CONCOURSE_WORK_DIR=/var/lib/concourse-work\n", "no two workers have one work folder")
	require.Equal(t, oldKey("/var/lib/concourse-worker/keys/worker_key"), u.read("/var/lib/concourse-worker/keys/worker_key"))
	require.False(t, u.Root.Exists("/opt/bin"))
	require.False(t, u.Root.Exists("/var/lib/concourse-worker/keys/session_signing_key"))
	after := contents()
	for path, was := range before {
		if strings.HasSuffix(path, ".download_in_progress") {
			require.NotContains(t, after, path, "D8: a mark that nobody will take away")
			continue
		}
		require.Equal(t, was, after[path], path)
	}
	require.Empty(t, u.hook("update-status").Commands)
}

// oldWeb is the web of the Python charm with its database and its peers.
func oldWeb(t *testing.T) (*cluster, *unit, *jujutest.Relation) {
	t.Helper()
	c := &cluster{t: t}
	var err error
	c.pg, err = sandbox.NewPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.pg.Close()) })
	u := oldUnit(t, "web", webUnit, options{"mode": "web", "enable-metrics": true})
	u.set(options{"web-port": u.Machine.WebPort()})
	u.Model.Leader, u.Model.Address = true, "10.0.0.10"
	c.units = []*unit{u}
	peers := u.Model.Relate(1, "peers", "concourse-ci-machine")
	peers.LocalApp = map[string]string{"admin-password": "Adm!nPassw0rd", "vault-role-secret-id": "s3cret", "upgrade-state": "idle"}
	c.database()
	return c, u, peers
}

// A web of the Python charm goes on with its keys, its password and the key of
// its database, which its option has forgotten.
func TestWebOfThePythonCharmIsTakenOver(t *testing.T) {
	c, u, peers := oldWeb(t)
	did := u.hook("upgrade-charm")
	require.Contains(t, c.status(0), "active: Web server ready (v8.2.5)")
	for _, key := range []string{"tsa_host_key", "session_signing_key"} {
		require.Equal(t, oldKey("/var/lib/concourse/keys/"+key), u.read("/var/lib/concourse/keys/"+key))
	}
	env := u.read("/var/lib/concourse/config.env")
	for _, kept := range []string{"CONCOURSE_ENABLE_ACROSS_STEP=true", "CONCOURSE_OLD_ENCRYPTION_KEY=0123456789abcdef", "Adm!nPassw0rd"} {
		require.Contains(t, env, kept)
	}
	for _, gone := range []string{"LDAP", "CONCOURSE_ENCRYPTION_KEY", "https_proxy"} {
		require.NotContains(t, env, gone)
	}
	require.Equal(t, []string{"web-secret"}, slices.Collect(maps.Keys(peers.LocalApp)), "nothing in clear is left")
	require.Contains(t, did.Commands, "systemctl disable --now concourse-exporter.service")
	for _, gone := range []string{"/etc/concourse-exporter.env", "/usr/local/bin/concourse-exporter.py", "/etc/systemd/system/concourse-exporter.service", "/root/.flyrc"} {
		require.False(t, u.Root.Exists(gone), gone)
	}
	require.True(t, u.Root.Exists("/usr/local/bin/fly"))
	authorized := u.read("/var/lib/concourse/keys/authorized_worker_keys")
	for name, kept := range map[string]bool{"gone": true, "/var/lib/concourse-worker/keys/worker_key": true, "/var/lib/concourse/keys/worker_key": false} {
		_, public := hosttest.Key(name)
		require.Equal(t, kept, strings.Contains(authorized, public), name)
	}
	require.Contains(t, c.status(0), "workers with 2 unknown keys may")
	require.Empty(t, u.hook("update-status").Commands)
}
