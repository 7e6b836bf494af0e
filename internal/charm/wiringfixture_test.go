package charm

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// newFixture is a unit on a machine, without relations.
func newFixture(t *testing.T, root host.Root, unit string, options set) fixture {
	t.Helper()
	m := jujutest.New(unit)
	m.CharmDir = hosttest.CharmDir(t)
	return fixture{root, m, options, roletest.DriverCommands(t)}
}

// newWorker is a worker with a web. A kubelet runs on its machine.
func newWorker(t *testing.T, root host.Root) fixture {
	t.Helper()
	b := newFixture(t, root, "gpu/0", set{"mode": "worker", "compute-runtime": "auto"})
	hosttest.Put(t, root, "/var/lib/kubelet/device-plugins/kubelet.sock", "")
	hosttest.Put(t, root, "/srv/models/a", "")
	b.model.Relate(7, "flight", "web").Units = map[string]map[string]string{
		"web/0": {"tsa-host": "10.0.0.2:2222", "tsa-public-key": roletest.TSAKey, "concourse-version": "8.2.5"}}
	return b
}

// newRunning is a worker that runs a task.
func newRunning(t *testing.T) fixture {
	t.Helper()
	b := newWorker(t, hosttest.Host(t, "mi210x4"))
	state := b.decide(t)
	for _, file := range []string{workerFile, concourse.TSAHostKey} {
		hosttest.Put(t, b.root, file, state[file])
	}
	folder := release.Dir + "/" + release.TestedVersion
	hosttest.Put(t, b.root, folder+"/VERSION", release.TestedVersion)
	hosttest.Put(t, b.root, folder+"/bin/concourse", "")
	hosttest.Link(t, b.root, release.Link, folder)
	hosttest.Put(t, b.root, "/run/containerd/io.containerd.runtime.v2.task/concourse/a/task.pid", "100")
	hosttest.Put(t, b.root, "/proc/100/stat", "100 (sh) S 1 100 100 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0\n")
	b.machine = roletest.DriverCommands(t).Answer("systemctl show", "Id="+concourse.Unit+
		"\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n\n")
	return b
}

// newWeb is a web with its database and a worker with GPUs.
func newWeb(t *testing.T) fixture {
	t.Helper()
	b := newFixture(t, hosttest.Host(t, "no-gpu"), "web/0", set{"mode": "web"})
	hosttest.Put(t, b.root, release.NewestFile, `{"queried_at":"2026-01-02T00:00:00Z","version":"8.9.0"}`)
	b.model.Leader = true
	b.model.Relate(1, "peers", "web")
	db := b.model.Relate(4, "postgresql", "postgresql")
	db.AppData = map[string]string{"database": "concourse", "endpoints": "10.0.0.3:5432",
		"secret-user": "secret:d2user0000000000000g"}
	b.model.Secrets = append(b.model.Secrets, &jujutest.Secret{ID: "d2user0000000000000g", Owner: "postgresql",
		Granted: true, Revisions: []map[string]string{{"username": "relation_4", "password": "pw"}}})
	tsa := b.model.Relate(7, "tsa", "gpu")
	tsa.Units["gpu/0"] = relation.WorkerDatabag(fakeKey(t, 1), "worker-1", "8.2.5")
	publishGPUs(tsa, "gpu/0", relation.WorkerGPUs{Runtime: "rocm", Count: 8, Exclusive: true,
		Archs: []relation.ArchCount{{Arch: "gfx942", GPUs: 8}}})
	return b
}

// newCertified is a web with a certificate for tls-enabled.
func newCertified(t *testing.T) fixture {
	t.Helper()
	b := newWeb(t)
	key, request, err := relation.NewCertificateRequest([]string{b.model.Address})
	require.NoError(t, err)
	hosttest.Put(t, b.root, keys+"tls.key", key)
	ca := hosttest.NewAuthority(t, "ca")
	list, err := json.Marshal([]map[string]any{{"certificate": ca.Sign(t, request), "ca": ca.PEM,
		"certificate_signing_request": request, "chain": []string{ca.PEM}}})
	require.NoError(t, err)
	b.model.Relate(9, "certificates", "ca").AppData = map[string]string{"certificates": string(list)}
	return b
}

// fixtures returns the units by name.
func fixtures(t *testing.T) map[string]fixture {
	t.Helper()
	alone := newWorker(t, hosttest.Host(t, "mi210x4"))
	alone.model.Relations = nil
	return map[string]fixture{
		"worker":    newWorker(t, hosttest.Host(t, "mi210x4")),
		"alone":     alone,
		"running":   newRunning(t),
		"metal":     newWorker(t, roletest.DriverHost(t, "metal-fresh")),
		"nvidia":    newWorker(t, hosttest.Host(t, "nvidia-only")),
		"web":       newWeb(t),
		"certified": newCertified(t),
	}
}
