// Package concourse describes how a worker and a web of Concourse run on a machine:
// folders, systemd units, keys, environment, tags and names. It also drains workers,
// migrates the database, and reads the web's API and health checks. It returns data and
// plan.Resource values. It never talks to Juju and never decides whether a worker or a web
// is wanted. Package release installs the programs.
package concourse

import "github.com/fourdollars/concourse-ci-machine/internal/concourse/release"

// Unit is the name of the worker's systemd unit.
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

	// runtimeDir comes first on the PATH of containerd's shims, so that they find the
	// charm's wrapper as runc.
	runtimeDir = "/opt/concourse-ci-machine/runtime"
	Wrapper    = runtimeDir + "/runc"
	Launcher   = runtimeDir + "/containerd"
	// RealRunc and realContainerd are the release's own programs. The charm uses neither
	// the system's programs nor a copy that an upgrade forgets.
	RealRunc       = release.BinDir + "/runc"
	realContainerd = release.BinDir + "/containerd"

	// HealthURL answers while the worker is running, registered or not.
	HealthURL = "http://127.0.0.1:8888/"
)
