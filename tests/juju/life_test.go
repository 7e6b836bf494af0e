package juju

import (
	"testing"

	agent "github.com/juju/juju/concourseagent"
	"github.com/stretchr/testify/require"
)

const tsaKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"

// strange is another program's web, related to a worker.
func (w *world) strange(worker string) *agent.Relation {
	w.t.Helper()
	_, err := w.Deploy("web", "")
	require.NoError(w.t, err)
	r := w.Relate(flight(7, "web", worker))
	w.Join(r, "web/0", "10.0.9.1")
	w.Tell(r, "web/0", map[string]string{"tsa-host": "10.0.9.1:2222", "tsa-public-key": tsaKey, "concourse-version": "8.2.5"})
	return r
}

func TestWorkerFromInstallToActive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.deploy("gpu", 1, 1, fixture("amd"), options{"mode": "worker", "compute-runtime": "rocm", "amd-container-toolkit": "skip"})[0]
	require.Equal(t, []string{"gpu/0 install", "gpu/0 peers-relation-created", "gpu/0 leader-elected", "gpu/0 config-changed", "gpu/0 start"}, w.settle())
	require.Contains(t, u.status(), "Waiting for a web")
	r := w.strange("gpu")
	require.Equal(t, []string{"gpu/0 flight-relation-created", "gpu/0 flight-relation-joined web/0", "gpu/0 flight-relation-changed web/0"}, w.settle())
	require.Contains(t, u.status(), "active: Worker ready (v8.2.5) (GPU: 1x AMD)")
	require.Equal(t, []string{workerUnit}, u.up())
	require.Contains(t, w.Bag(r, "gpu/0")["worker-public-key"], "ssh-rsa ")
	require.Equal(t, "8.2.5", u.Version)
	w.idle()
	require.NoError(t, u.Hook("stop").Err)
	require.Empty(t, u.up())
	require.NoError(t, u.Hook("remove").Err)
	require.False(t, u.Root.Exists("/etc/systemd/system/concourse-worker.service"))
}

// Juju runs a hook that failed again, and the next one continues at its end.
func TestHookThatFailsHalfWayHeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.deploy("gpu", 1, 1, fixture("no-gpu"), options{"mode": "worker"})[0]
	w.settle()
	r := w.strange("gpu")
	u.Machine.Fail = func(line string) string {
		if line == "systemctl start concourse-worker.service" {
			return "Failed to start concourse-worker.service: Connection timed out"
		}
		return ""
	}
	ran := u.Settle()
	last := ran[len(ran)-1]
	require.ErrorContains(t, last.Err, "exit status 1")
	require.NotEqual(t, "active", u.Status.Status)
	var said string
	for _, l := range last.Logs {
		said += l.Message + "\n"
	}
	require.Contains(t, said, "Connection timed out")
	require.Equal(t, last.Hook, u.Settle()[0].Hook, "Juju runs the same hook again")

	u.Machine.Fail = nil
	again := u.Settle()
	require.Equal(t, last.Hook, again[0].Hook)
	w.settle()
	require.Equal(t, "active: Worker ready (v8.2.5)", u.status())
	require.NotEmpty(t, w.Bag(r, "gpu/0")["worker-public-key"])
	w.idle()
}

// D3: the predecessor's new leader had no keys, and its old one kept the web.
func TestD3ThreeUnitsOfModeAutoAndAnotherLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ci := w.deploy("ci", 1, 3, fixture("no-gpu"), options{"mode": "auto"})
	w.settle()
	require.Contains(t, ci[0].status(), "blocked: PostgreSQL database required")
	_, s := w.database("ci", 4)
	w.settle()
	require.Contains(t, ci[0].status(), "active: Web server ready (v8.2.5) ")
	require.Equal(t, []string{webUnit}, ci[0].up())
	for _, u := range ci[1:] {
		require.Equal(t, "active: Worker ready (v8.2.5)", u.status(), u.Name)
		require.Equal(t, []string{workerUnit}, u.up())
	}
	w.idle()
	own := w.Secrets("ci")
	require.Len(t, own, 1)
	hostKey := ci[0].read("/var/lib/concourse/keys/tsa_host_key")
	a, ran := ci[0].Act("get-admin-password", nil)
	require.NoError(t, ran.Err)
	require.Equal(t, "completed", a.Status, a.Message)

	w.Lead("ci/1")
	w.settle()
	require.Contains(t, ci[1].status(), "active: Web server ready (v8.2.5) ")
	require.Equal(t, []string{webUnit}, ci[1].up())
	require.Equal(t, hostKey, ci[1].read("/var/lib/concourse/keys/tsa_host_key"))
	require.Contains(t, ci[1].read("/var/lib/concourse/config.env"), a.Results["password"])
	for _, u := range []*unit{ci[0], ci[2]} {
		require.Equal(t, []string{workerUnit}, u.up(), u.Name)
		require.Equal(t, "active: Worker ready (v8.2.5)", u.status())
		require.Contains(t, u.read("/var/lib/concourse-worker/worker-config.env"), "CONCOURSE_TSA_HOST=10.0.1.11:2222\n")
	}
	require.Len(t, w.Secrets("ci"), 1, "one secret, whoever leads")
	require.False(t, ci[0].Root.Exists("/var/lib/concourse/config.env"))
	w.idle()

	w.Update(s, map[string]string{"username": "relation_4", "password": "second-password"})
	require.Contains(t, w.settle(), "ci/1 secret-changed")
	require.Contains(t, ci[1].read("/var/lib/concourse/config.env"), "second-password")
	w.idle()
}
