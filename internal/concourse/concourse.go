// Package concourse is what the charm knows of running a worker and a web of
// Concourse: folders and units of systemd, keys and environment, tags and names,
// the database's migrations, how a worker is drained, and what the web's API and
// health checks say. It returns data and plan.Resource values; it never talks to
// Juju and never decides whether a worker or a web is wanted. Where the programs
// come from is package release's.
package concourse

import "concourse-ci-machine/internal/concourse/release"

// Unit is the worker's systemd unit.
const Unit = "concourse-worker.service"

// Paths of the machine.
const (
	resourceTypes = release.Link + "/resource-types"
	WorkDir       = release.HomeDir + "/worker"

	ConfigDir       = "/var/lib/concourse-worker"
	KeyDir          = ConfigDir + "/keys"
	WorkerKey       = KeyDir + "/worker_key"
	WorkerKeyPublic = KeyDir + "/worker_key.pub"
	TSAHostKey      = KeyDir + "/tsa_host_key.pub"
	EnvFile         = ConfigDir + "/worker-config.env"
	OperatorEnvFile = "/etc/default/concourse"
	UnitFile        = "/etc/systemd/system/" + Unit

	// runtimeDir comes first on the PATH of containerd's shims, which look
	// runc up there: its runc is the charm's wrapper.
	runtimeDir = "/opt/concourse-ci-machine/runtime"
	Wrapper    = runtimeDir + "/runc"
	Launcher   = runtimeDir + "/containerd"
	// RealRunc and realContainerd are the release's own (never the system's,
	// never a copy that an upgrade forgets).
	RealRunc       = release.BinDir + "/runc"
	realContainerd = release.BinDir + "/containerd"

	// HealthURL answers while the worker is up, registered or not.
	HealthURL = "http://127.0.0.1:8888/"
)
